import t from 'tap'
import { startCli } from '../fixtures/cli.ts'
import { makeHold, newHoldId, used } from '../fixtures/ledger.ts'
import { parseCsv } from '../fixtures/csv.ts'

t.test('usage of an account and of all, as a table, JSON and CSV', async (t) => {
  const { cli, accounts, ledger } = await startCli(t)
  for (const name of ['a', 'b']) {
    const { ref } = await accounts.createAccount({ name })
    await ledger.settle(makeHold({ id: newHoldId(), ref, keyId: 'key_1' }), used(30))
  }
  const [title, row, ...rest] = (await cli('usage', 'a')).out.trimEnd().split('\n')
  t.match(title, /^FROM +REQUESTS +IN +CACHED +OUT +COST +WAIVED$/)
  t.match(row, /^\S+ 00:00:00Z +1 +7 +2 +5 +30 +0$/)
  t.same(rest, [])
  t.match((await cli('usage', 'a', '--by', 'model')).out, /^FROM +MODEL [^\n]+\n\S+ \S+ +m +1 /)
  t.match((await cli('usage', 'a', '--by', 'key')).out, /key_1 +1 /)
  t.match((await cli('usage')).out, /\n\S+ 00:00:00Z +2 +14 +4 +10 +60 +0\n$/)
  const { data } = JSON.parse((await cli('usage', '--by', 'account', '--json')).out)
  t.match(data, [
    { account_id: /^acct_/, cost: 30 },
    { account_id: /^acct_/, cost: 30 },
  ])
  t.match((await cli('usage', '--by', 'account')).out, /^FROM +ACCOUNT /)
  const [titles = [], ...rows] = await parseCsv((await cli('usage', '--by', 'key', '--csv')).out)
  t.same(
    rows.map((cells) => cells[titles.indexOf('cost')]),
    ['30', '30'],
  )
  t.match(await cli('usage', 'a', '--model', 'none', '--json'), { out: /"data":\[\]/ })
  t.match(await cli('usage', 'a', '--csv', '--json'), { code: 2 })
  t.match(await cli('usage', 'a', '--by', 'account'), { code: 1, err: /"group_by" must be/ })
  t.match(await cli('usage', 'nobody', '--csv'), { code: 1, out: '', err: /account_not_found/ })
})
