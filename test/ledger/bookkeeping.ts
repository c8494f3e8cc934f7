// Payments over two gateways: each is made once, though replies are lost, or Redis forgets.

import t from 'tap'
import type { Credited } from '../../src/ledger/bookkeeping.ts'
import type { Ledger } from '../../src/ledger/ledger.ts'
import { keys } from '../../src/redis/keys.ts'
import { cutOff, durable } from '../fixtures/aof.ts'
import { diskStore } from '../../src/store/disk.ts'
import {
  connectLink,
  makeAccount,
  newHoldId,
  openFor,
  openLedger,
  openOn,
  untilBalance,
} from '../fixtures/ledger.ts'
import { pick } from '../fixtures/pick.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { tempDir } from '../fixtures/temp-dir.ts'
import { until } from '../fixtures/until.ts'

const pay = (ledger: Ledger, ref: string, reference = 'pay_1'): Promise<Credited> =>
  ledger.credit({ ref, idempotencyId: newHoldId(), amount: 100, type: 'topup', reference })

t.test('50 equal top-ups at two gateways, each with a key of its own: one payment', async (t) => {
  const first = await openFor(t, 0)
  const second = await openOn(t, { on: first.server })
  const ledgers = [first.ledger, second.ledger] as const
  const made = await Promise.all(
    Array.from({ length: 50 }, (_, i) => pay(ledgers[i % 2 === 0 ? 0 : 1], first.ref)),
  )
  t.equal(new Set(pick(pick(made, 'transaction'), 'id')).size, 1)
  t.equal(made.filter(({ isRepeated }) => !isRepeated).length, 1)
  t.match(await first.ledger.balance(first.ref), { granted: 100 })
  t.match(await first.ledger.audit(first.ref), { entries: 1, differences: [] })
})

t.test('a payment whose reply was lost is found by the next try', async (t) => {
  const { server, link, ledger, ref } = await openFor(t, 0, { commandTimeoutMs: 300 })
  const other = await openOn(t, { on: server })
  const evalsha = link.client.evalsha.bind(link.client) as (...words: unknown[]) => Promise<unknown>
  t.intercept(link.client, 'evalsha', {
    value: async (...words: unknown[]) => {
      await evalsha(...words)
      throw new Error('the reply was lost')
    },
  })
  await t.rejects(pay(ledger, ref), { code: 'ledger_unavailable' })
  t.match(await pay(other.ledger, ref), { isRepeated: true, transaction: { amount: 100 } })
  t.match(await other.ledger.balance(ref), { granted: 100 })
})

t.test(
  '8 a payment that Redis forgot comes back once, though it was also made again',
  async (t) => {
    const server = await startRedis(t, { args: durable })
    const { ledger, caller, ref } = await openFor(t, 0, { on: server })
    const other = await openOn(t, { on: server })
    await pay(ledger, ref)
    await pay(ledger, ref, 'pay_2')
    t.match(await pay(other.ledger, ref), { isRepeated: true })
    await server.kill()
    // The repetition, the second payment, and so the first.
    await cutOff(server.dir, 9)
    await server.restart()
    await untilBalance(ledger, caller, { balance: 200 })
    await until(() => other.ledger.isOpen)
    t.match(await pay(other.ledger, ref), { isRepeated: true })
    t.match(await pay(other.ledger, ref, 'pay_2'), { isRepeated: true })
    t.match(await ledger.balance(ref), { granted: 200 })
    t.match(await ledger.audit(ref), { entries: 2, differences: [], late: 0 })
  },
)

t.test('a payment that has moved to the archive is still found', async (t) => {
  const server = await startRedis(t)
  const link = await connectLink(t, server.socket)
  const archiveStore = diskStore(await tempDir(t))
  const ledger = await openLedger(t, { link, archiveStore, journalKeepMs: 1 })
  const { ref } = await makeAccount(link)
  const { transaction } = await pay(ledger, ref)
  await link.client.zadd(keys.accounts, 0, `acct_${ref}:${ref}`)
  await until(async () => (await ledger.archive()) === 1)
  t.equal(await link.client.xlen(keys.journal(ref)), 0)
  t.same(await pay(ledger, ref), { transaction, isRepeated: true })
  const found = { limit: 1, order: 'desc', reference: 'pay_1' } as const
  t.same((await ledger.transactions(ref, found)).data, [transaction])
})
