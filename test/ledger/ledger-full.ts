// A ledger on a Redis whose memory is full: what has begun goes on and ends, nothing begins, and no script stops between
// two of its writes.

import t from 'tap'
import { diskStore } from '../../src/store/disk.ts'
import { ledgerScripts } from '../../src/ledger/library.ts'
import { accountKeys, keys } from '../../src/redis/keys.ts'
import { createScripts } from '../../src/redis/scripts.ts'
import {
  connectLink,
  makeAccount,
  moveLeases,
  newHoldId,
  openAdmission,
  openLedger,
  reapingStarted,
  request,
  spend,
  topUp,
  unlimited,
  untilRow,
  used,
} from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { tempDir } from '../fixtures/temp-dir.ts'
import { until } from '../fixtures/until.ts'

const leaseMs = 900
const { socket } = await startRedis(t)
const link = await connectLink(t, socket)
const { client } = link
await reapingStarted(link)
const full = () => client.config('SET', 'maxmemory', '1')
const roomy = () => client.config('SET', 'maxmemory', '0')

/** All that Redis has of an account. */
async function contents(ref: string): Promise<readonly unknown[]> {
  const names = (await client.keys(`{${ref}}:*`)).toSorted()
  const dumps = names.map((name) => client.dumpBuffer(name))
  return [names, ...(await Promise.all(dumps)).map((dump) => dump?.toString('latin1'))]
}

t.test('a settlement, a checkpoint and a read run; a settlement waits for nothing', async (t) => {
  const ledger = await openLedger(t, { link, leaseMs })
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 1000)
  const [hold, running] = [
    await ledger.admit(request(caller, 100)),
    await ledger.admit(request(caller, 200)),
  ]
  await client.hset(keys.key(caller.ref, 'hmac'), 'last_used_at', 1)
  const { size } = ledger.spool
  await full()
  await ledger.settle(hold, used(40))
  t.equal(ledger.spool.size, size, 'nothing has to wait on the disk')
  spend(running, { charge: 7 })
  await untilRow(link, running, '200 7 ')
  t.match(await ledger.balance(caller.ref), { balance: 960, reserved: 200 })
  t.match(await ledger.identify(caller), { plan: 'default' })
  await ledger.settle(running, used(9))
  await roomy()
  t.match(await ledger.balance(caller.ref), { balance: 951, reserved: 0 })
  t.same((await ledger.audit(caller.ref)).differences, [])
})

t.test('a hold of a dead gateway is reaped', async (t) => {
  const other = await connectLink(t, socket)
  const [ledger, dying] = [
    await openLedger(t, { link, leaseMs }),
    await openLedger(t, { link: other, leaseMs }),
  ]
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 1000)
  const hold = await dying.admit(request(caller, 100))
  spend(hold, { charge: 30 })
  await untilRow(link, hold, '100 30 ')
  other.drop()
  await dying.close(0)
  await full()
  await until(async () => (await ledger.balance(caller.ref)).reserved === 0)
  t.match(await ledger.balance(caller.ref), { balance: 970 })
  await roomy()
  t.same((await ledger.audit(caller.ref)).differences, [])
})

t.test('nothing begins, and what is refused has written nothing', async (t) => {
  const ledger = await openLedger(t, { link, leaseMs: 60_000 })
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 1000)
  await full()
  const before = await contents(caller.ref)
  await t.rejects(ledger.admit(request(caller, 10)), { code: 'ledger_unavailable' })
  await t.rejects(topUp(ledger, caller, 5), { code: 'ledger_unavailable' })
  t.strictSame(await contents(caller.ref), before)
  await roomy()
  t.same((await ledger.audit(caller.ref)).differences, [])
})

t.test('an admission reaps, and is refused', async (t) => {
  const other = await connectLink(t, socket)
  const ledger = await openLedger(t, { link: other, leaseMs: 60_000 })
  const caller = await makeAccount(link)
  const { ref } = caller
  await topUp(ledger, caller, 1000)
  await ledger.admit(request(caller, 100))
  const [expired = ''] = await client.hkeys(keys.holdRows(ref))
  await moveLeases({ client }, ref, { to: 1, of: [expired] })
  other.drop()
  await ledger.close(0)
  const scripts = createScripts({ link, library: ledgerScripts })
  const names = [...accountKeys(ref), keys.key(ref, caller.hmac)]
  const words = `${newHoldId()} 10 10 10 10 1`
  await full()
  const rest = ['chat', words, '1 - - - default', 'm', 'm {}', '', '- - 0 0 1 0 1 0 1']
  const admit = (reaped: number) => scripts.run('admit', names, [`1 ${reaped} 0`, ...rest])
  t.match(await admit(0), { word: 'reap' })
  t.match(await scripts.run('reap', accountKeys(ref), ['1']), { values: ['ok', Number, 1] })
  const before = await contents(ref)
  await t.rejects(admit(1), { code: 'ledger_unavailable' })
  t.strictSame(await contents(ref), before)
  await roomy()
  const again = await openLedger(t, { link, leaseMs: 60_000 })
  t.match(await again.balance(ref), { balance: 1000, reserved: 0 })
  t.same((await again.audit(ref)).differences, [])
})

t.test('a balance is shown though its allowance cannot be renewed', async (t) => {
  const allowance = { tokens: 50, every: 'month', rollover: false } as const
  const plans = () => new Map([['default', { ...unlimited, allowance }]])
  const ledger = await openLedger(t, { link, leaseMs: 60_000, plans })
  const caller = await makeAccount(link)
  const { ref } = caller
  await topUp(ledger, caller, 1000)
  await full()
  const before = await contents(ref)
  t.match(await ledger.balance(ref), { balance: 1000 })
  await t.rejects(ledger.admit(request(caller, 10)), { code: 'ledger_unavailable' })
  t.strictSame(await contents(ref), before)
  await roomy()
  t.match(await ledger.balance(ref), { balance: 1050 })
})

t.test('an account is closed, and its books are', async (t) => {
  const ledger = await openLedger(t, { link, leaseMs })
  const caller = await makeAccount(link)
  const { ref } = caller
  await topUp(ledger, caller, 1000)
  const scripts = createScripts({ link, library: ledgerScripts })
  const dead = openAdmission({ scripts, leaseMs })
  for (const _ of [1, 2]) {
    const { id } = await dead.admit(request(caller, 100))
    await moveLeases({ client }, ref, { to: 1, of: [id] })
  }
  await full()
  await ledger.closing.close(ref, true)
  t.equal(await client.hlen(keys.holdRows(ref)), 0, 'its dead holds are reaped')
  t.equal(await ledger.closing.writeOff(ref), 0)
  await roomy()
  t.match(await ledger.balance(ref), { balance: 0, reserved: 0 })
  t.same((await ledger.audit(ref)).differences, [])
})

t.test('the journal is archived, which makes room', async (t) => {
  const archiveStore = diskStore(await tempDir(t))
  const ledger = await openLedger(t, { link, leaseMs, archiveStore, journalKeepMs: -1000 })
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 1000)
  await client.zadd(keys.accounts, 0, `acct:${caller.ref}`)
  await full()
  t.equal(await ledger.archive(), 1)
  await roomy()
  t.same((await ledger.audit(caller.ref)).differences, [])
})
