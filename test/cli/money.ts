import t from 'tap'
import { startCli } from '../fixtures/cli.ts'
import { makeHold, newHoldId, used } from '../fixtures/ledger.ts'

t.test('a balance is topped up, adjusted both ways, and shown', async (t) => {
  const { cli, accounts } = await startCli(t)
  await accounts.createAccount({ name: 'a' })
  const topup = await cli('topup', 'a', '1_000_000', '--note', 'invoice')
  t.match(topup, { code: 0, out: /^\+1,000,000, balance 1,000,000 \(txn_[0-9a-f]{32}\)\n$/ })
  t.match(await cli('adjust', 'a', '-500', '--note', '-5 %'), {
    code: 0,
    out: /^-500, balance 999,500 /,
  })
  t.match(await cli('adjust', 'a', '+500', '--note', 'x'), {
    code: 0,
    out: /^\+500, balance 1,000,000 /,
  })
  t.match(await cli('adjust', 'a', '--note=x', '-1'), { code: 0, out: /^-1, / })
  const balance = await cli('balance', 'a')
  t.match(
    balance.out,
    /^available +999,999\nreserved +0\nbalance +999,999\ngranted +999,999\nspent +0\nowed +0\nas of /,
  )
  t.match(JSON.parse((await cli('balance', 'a', '--json')).out), { available: 999_999 })
  const tooMuch = await cli('adjust', 'a', '-1000000', '--note', 'x')
  t.match(tooMuch, { code: 1, out: '', err: /insufficient_balance/ })
})

t.test('invalid amounts change nothing', async (t) => {
  const { cli, accounts, ledger } = await startCli(t)
  const { ref } = await accounts.createAccount({ name: 'a' })
  for (const words of [
    ['topup', 'a', '0'],
    ['topup', 'a', '-5'],
    ['topup', 'a', '1.5'],
    ['topup', 'a'],
    ['topup', 'a', '5', '6'],
    ['adjust', 'a', '5'],
    ['adjust', 'a', '0', '--note', 'x'],
  ]) {
    t.equal((await cli(...words)).code, 2, words.join(' '))
  }
  t.equal((await ledger.balance(ref)).granted, 0)
})

t.test('the same --idempotency-key moves money once', async (t) => {
  const { cli, accounts } = await startCli(t)
  await accounts.createAccount({ name: 'a' })
  const topup = (amount: string) => cli('topup', 'a', amount, '--idempotency-key', 'k')
  t.equal((await topup('5')).out, (await topup('5')).out)
  t.match(await topup('6'), { code: 1, err: /idempotency_key_reused/ })
  t.match(JSON.parse((await cli('balance', 'a', '--json')).out), { granted: 5 })
})

t.test('a refund gives back what was spent; a payment is topped up once', async (t) => {
  const { cli, accounts, ledger } = await startCli(t)
  const { ref } = await accounts.createAccount({ name: 'a' })
  const pay = (amount: string) => cli('topup', 'a', amount, '--reference', 'pi_1')
  t.equal((await pay('100')).out, (await pay('100')).out)
  t.match(await pay('99'), { code: 1, err: /reference_reused/ })
  await ledger.settle(makeHold({ id: newHoldId(), ref }), used(30))
  t.match(await cli('refund', 'a', '20', '--note', 'sorry'), { code: 0, out: /^\+20, balance 90 / })
  t.match(await cli('refund', 'a', '11', '--note', 'x'), { code: 1, err: /has spent 10 tokens/ })
  for (const words of [
    ['refund', 'a', '5'],
    ['refund', 'a', '-5', '--note', 'x'],
  ])
    t.equal((await cli(...words)).code, 2)
  t.match(await ledger.balance(ref), { granted: 100, spent: 10 })
})
