// Who is counted among those with a low balance, and what all have.

import t from 'tap'
import { sumBalances } from '../../src/ledger/all-balances.ts'
import { keys } from '../../src/redis/keys.ts'
import { makeAccount, openOn, request, topUp, used } from '../fixtures/ledger.ts'

t.test('what is held is not available; without a number nobody is counted', async (t) => {
  const { link, ledger } = await openOn(t)
  const { client } = link
  const rich = await makeAccount(link)
  const busy = await makeAccount(link)
  const poor = await makeAccount(link)
  const suspended = await makeAccount(link, { account: { status: 'suspended' } })
  for (const { ref } of [rich, busy, poor, suspended]) {
    await client.zadd(keys.accounts, 0, `acct_${ref}:${ref}`)
  }
  for (const caller of [rich, busy]) await topUp(ledger, caller, 10)
  await ledger.admit(request(busy, 1))
  t.match(await sumBalances(client, 10), { low: 2 })
  t.match(await sumBalances(client, 9), { low: 1 })
  t.match(await sumBalances(client, 11), { low: 3 })
  t.strictSame(await sumBalances(client, 0), { low: 0, balance: 20 })
})

t.test('a budget that is used up is no low balance: no top-up would help', async (t) => {
  const { link, ledger } = await openOn(t)
  const { client } = link
  const capped = await makeAccount(link, { account: { budget: '3 month' } })
  await client.zadd(keys.accounts, 0, `acct_${capped.ref}:${capped.ref}`)
  await topUp(ledger, capped, 100)
  await ledger.settle(await ledger.admit(request(capped, 3)), used(3))
  t.match(await ledger.balance(capped.ref), { available: 0, balance: 97 })
  t.match(await sumBalances(client, 97), { low: 0 })
  t.strictSame(await sumBalances(client, 98), { low: 1, balance: 97 })
})
