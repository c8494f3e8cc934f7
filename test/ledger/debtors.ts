// What all accounts owe together: also with debtors that nobody noted, that were forgotten, or that have paid.

import t from 'tap'
import { createDebtors } from '../../src/ledger/debtors.ts'
import { ledgerScripts } from '../../src/ledger/library.ts'
import { keys } from '../../src/redis/keys.ts'
import { createScripts } from '../../src/redis/scripts.ts'
import {
  makeAccount,
  moveLeases,
  openAdmission,
  openOn,
  request,
  topUp,
  untilRow,
  used,
} from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { until } from '../fixtures/until.ts'

const server = await startRedis(t)
const place = async (leaseMs?: number) => {
  const opened = await openOn(t, { on: server, ...(leaseMs && { leaseMs }) })
  await opened.link.client.flushall()
  return opened
}

t.test('debts of settlements are summed until they are paid', async (t) => {
  const { link, ledger } = await place()
  const { ledger: other } = await openOn(t, { on: server })
  const callers = [await makeAccount(link), await makeAccount(link), await makeAccount(link)]
  t.equal(await ledger.debtors.sum(), 0)
  for (const [i, caller] of callers.entries()) {
    const hold = await ledger.admit(request(caller, 0))
    await ledger.settle(hold, used(10 ** i))
  }
  t.equal(await ledger.debtors.sum(), 111)
  t.equal(await other.debtors.sum(), 111, 'at the gateway that settled nothing too')
  for (const caller of callers.slice(1)) await topUp(ledger, caller, 60)
  t.equal(await other.debtors.sum(), 1 + 40)
  t.equal(await link.client.scard(keys.debtors), 2, 'who has paid is no debtor')
})

t.test('a debt from a reaped hold is noted by whoever finds it', async (t) => {
  const leaseMs = 60
  const { link, ledger } = await place(leaseMs)
  const { link: lost, ledger: dying } = await openOn(t, { on: server, leaseMs })
  const caller = await makeAccount(link)
  const hold = await dying.admit(request(caller, 0))
  hold.watch(() => used(9))
  await untilRow(link, hold, '0 9 ')
  lost.drop()
  await dying.close(0)
  await until(async () => (await ledger.balance(caller.ref)).owed === 9)
  t.equal(await ledger.debtors.sum(), 9)
  t.match((await ledger.transactions(caller.ref, { limit: 9, order: 'asc' })).data, [
    { type: 'charge', amount: 0, owed: 9, estimated: true },
  ])
})

t.test('what a reaped hold sets free pays a debt', async (t) => {
  const { link, ledger } = await place(60)
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 100)
  const scripts = createScripts({ library: ledgerScripts, link })
  const admission = openAdmission({ scripts, leaseMs: 30_000 })
  const dead = await admission.admit(request(caller, 40))
  await ledger.settle(await admission.admit(request(caller, 60)), used(90))
  t.equal((await ledger.balance(caller.ref)).owed, 30)
  await moveLeases(link, caller.ref, { to: 1, of: [dead.id] })
  await until(async () => (await ledger.balance(caller.ref)).reserved === 0)
  t.match(await ledger.balance(caller.ref), { owed: 0, balance: 10 })
  t.match(await ledger.transactions(caller.ref, { limit: 1, order: 'desc' }), {
    data: [{ type: 'repayment', amount: -30, balance_after: 10 }],
  })
})

t.test('a Redis that forgot the set is told again, or every account is looked at', async (t) => {
  const { link, ledger } = await place()
  const caller = await makeAccount(link)
  const { ref } = caller
  await ledger.settle(await ledger.admit(request(caller, 0)), used(5))
  await until(async () => (await link.client.scard(keys.debtors)) === 1)
  await link.client.del(keys.debtors)
  t.equal(await ledger.debtors.sum(), 5, 'what was noted since the last sum')
  await link.client.del(keys.debtors)
  t.equal(await ledger.debtors.sum(), 0)
  await t.rejects(ledger.admit(request(caller, 1)), { code: 'insufficient_balance' })
  t.equal(await ledger.debtors.sum(), 5, 'a refusal notes it')

  await link.client.del(keys.debtors)
  const listed = Array.from({ length: 1500 }, (_, i) => `acct_${i}:other${i}`)
  await link.client.zadd(keys.accounts, ...[...listed, `acct_x:${ref}`].flatMap((one) => [0, one]))
  await ledger.debtors.findAll()
  t.same(await link.client.smembers(keys.debtors), [ref])
  t.equal(await ledger.debtors.sum(), 5)
})

t.test('an account that owes again while it is removed from the set stays in it', async (t) => {
  const { link } = await place()
  const { client } = link
  const { ref } = await makeAccount(link)
  await client.sadd(keys.debtors, ref)
  const srem = client.srem.bind(client)
  const late = async (key: string, ...refs: string[]) => {
    await client.hset(keys.account(ref), 'owed', 3)
    await client.sadd(keys.debtors, ref)
    return srem(key, ...refs)
  }
  const debtors = createDebtors(Object.assign(client, { srem: late }))
  t.equal(await debtors.sum(), 0)
  t.equal(await debtors.sum(), 3)
})

t.test('Redis away: noting an account never fails', async (t) => {
  const own = await startRedis(t)
  const { link, ledger } = await openOn(t, { on: own })
  await own.kill()
  ledger.debtors.note('r')
  await t.rejects(ledger.debtors.sum())
  await own.restart()
  await until(() => link.up)
  await link.client.hset(keys.account('r'), 'owed', 2)
  t.equal(await ledger.debtors.sum(), 2, 'it is written when Redis is back')
})
