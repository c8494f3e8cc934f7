import t from 'tap'
import { startCli } from '../fixtures/cli.ts'
import { parseCsv } from '../fixtures/csv.ts'
import { makeHold, newHoldId, used } from '../fixtures/ledger.ts'
import { until } from '../fixtures/until.ts'

t.test('the newest transactions are shown, the newest last', async (t) => {
  const { cli, accounts } = await startCli(t)
  await accounts.createAccount({ name: 'a' })
  for (const amount of ['1', '2', '3']) await cli('topup', 'a', amount, '--note', `n${amount}`)
  const { out } = await cli('transactions', 'a', '--limit', '2')
  const [title, ...rows] = out.trimEnd().split('\n')
  t.match(title, /^TIME +TYPE +AMOUNT +BALANCE +MODEL +IN +OUT +NOTE +ID$/)
  t.match(rows, [/ topup +\+2 +3 +- +- +- +n2 +txn_/, / topup +\+3 +6 +- +- +- +n3 +txn_/])
  const { data } = JSON.parse((await cli('transactions', 'a', '--json')).out) as { data: unknown }
  t.match(data, [{ amount: 1 }, { amount: 2 }, { amount: 3 }])
})

t.test('a row says what the amount does not: what is owed, and what was waived', async (t) => {
  const { cli, accounts, ledger } = await startCli(t)
  const { ref } = await accounts.createAccount({ name: 'a' })
  for (const meta of ['{}', '{"shadow":true}']) {
    await ledger.settle(makeHold({ id: newHoldId(), ref, meta }), used(30))
  }
  const [, ...rows] = (await cli('transactions', 'a')).out.trimEnd().split('\n')
  t.match(rows, [/ charge +0 .* owed 30 +txn_/, / charge +0 .* waived 30 +txn_/])
})

t.test('--follow prints each new transaction once, until it is interrupted', async (t) => {
  const { cli, cliWith, accounts } = await startCli(t)
  await accounts.createAccount({ name: 'a' })
  await cli('topup', 'a', '1')
  const interrupt = new AbortController()
  const lines: { amount: number }[] = []
  const follow = cliWith({
    signal: interrupt.signal,
    onOutput: (text) => void lines.push(JSON.parse(text) as { amount: number }),
  })
  const following = follow('transactions', 'a', '--follow', '--json')
  await until(() => lines.length === 1)
  await cli('topup', 'a', '2')
  await until(() => lines.length === 2)
  await cli('topup', 'a', '3')
  await until(() => lines.length === 3)
  interrupt.abort()
  t.match(await following, { code: 0, err: '' })
  t.strictSame(
    lines.map(({ amount }) => amount),
    [1, 2, 3],
  )
})

t.test('--follow on an account without any starts with the first', async (t) => {
  const { cli, cliWith, accounts } = await startCli(t)
  await accounts.createAccount({ name: 'a' })
  const interrupt = new AbortController()
  const follow = cliWith({ signal: interrupt.signal, onOutput: () => interrupt.abort() })
  const following = follow('transactions', 'a', '--follow')
  await cli('topup', 'a', '7')
  t.match(await following, { code: 0, out: /^\S+ \S+ +topup +\+7 +7 .*\n$/ })
})

t.test('filters find the rows, and --csv has all of them, the oldest first', async (t) => {
  const { cli, accounts } = await startCli(t)
  await accounts.createAccount({ name: 'a' })
  for (let i = 1; i <= 25; i++) await cli('topup', 'a', `${i}`, '--reference', `pay_${i}`)
  await cli('adjust', 'a', '-5', '--note', '=cmd')
  const csv = async (...words: readonly string[]) => {
    const { code, out } = await cli('transactions', 'a', '--csv', ...words)
    t.equal(code, 0)
    const [titles = [], ...rows] = await parseCsv(out)
    return rows.map((row) => Object.fromEntries(titles.map((title, i) => [title, row[i]])))
  }
  const all = await csv()
  t.equal(all.length, 26)
  t.match(all[0], { amount: '1', reference: 'pay_1' })
  t.match(all[25], { type: 'adjustment', amount: '-5', note: "'=cmd" })
  t.match(await csv('--type', 'adjustment'), [{ amount: '-5' }])
  t.same(await csv('--to', '2026-01-01'), [])
  const json = async (...words: readonly string[]) =>
    (JSON.parse((await cli('transactions', 'a', '--json', ...words)).out) as { data: unknown }).data
  t.match(await json('--reference', 'pay_7'), [{ amount: 7, reference: 'pay_7' }])
  t.match(await json('--type', 'topup', '--limit', '1'), [{ amount: 25 }])
  t.match((await cli('transactions', 'a', '--reference', 'pay_7')).out, / pay_7 +txn_/)
  t.match(await cli('transactions', 'a', '--csv', '--limit', '1'), { code: 2 })
  t.match(await cli('transactions', 'a', '--csv', '--type', 'gift'), { code: 1, out: '' })
})
