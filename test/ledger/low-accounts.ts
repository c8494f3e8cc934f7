// src/ledger/low-accounts.ts: who is counted.

import t from 'tap'
import { countLow } from '../../src/ledger/low-accounts.ts'
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
  t.equal(await countLow(client, 10), 2)
  t.equal(await countLow(client, 9), 1)
  t.equal(await countLow(client, 11), 3)
  t.equal(await countLow(client, 0), 0)
})

t.test('a budget that is used up is no low balance: no top-up would help', async (t) => {
  const { link, ledger } = await openOn(t)
  const { client } = link
  const capped = await makeAccount(link, { account: { budget: '3 month' } })
  await client.zadd(keys.accounts, 0, `acct_${capped.ref}:${capped.ref}`)
  await topUp(ledger, capped, 100)
  await ledger.settle(await ledger.admit(request(capped, 3)), used(3))
  t.match(await ledger.balance(capped.ref), { available: 0, balance: 97 })
  t.equal(await countLow(client, 97), 0)
  t.equal(await countLow(client, 98), 1)
})
