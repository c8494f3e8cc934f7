// Every settlement until Redis has surely kept it: on disk if it could not be sent, sent again at every reconnect,
// forgotten after 30 s of connected time.

import { mkdir, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { createConnectedClock } from '../../src/ledger/clock.ts'
import { releaseOrder } from '../../src/ledger/orders.ts'
import { Outbox } from '../../src/ledger/outbox.ts'
import type { Order, OrderReply } from '../../src/ledger/orders.ts'
import { unavailable } from '../../src/redis/scripts.ts'
import { openSpool } from '../../src/ledger/spool.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

const ok: OrderReply = { word: 'ok', nowMs: 1, values: ['ok', 1, '5', '0', '9', 0] }
const names = { ref: 'r', id: 'i', hash: 'h', meta: '{}' }
const topup = { kind: 'credit', type: 'topup', ...names, amount: 1, at: 1 } as const
const settlement = (id: string) => ({ ...releaseOrder('ref', 'h', id), charge: 5 })

/** An outbox whose Redis answers what the test says, at a time the test says. */
async function open(t: Test, answer: (order: Order) => Promise<OrderReply>) {
  const state = { nowMs: 0, isUp: true, late: 0, problems: 0 }
  const dir = await tempDir(t)
  const spool = await openSpool(dir)
  t.teardown(() => spool.close())
  const connected = createConnectedClock({ isWhole: true }, () => state.nowMs)
  const sent: string[] = []
  const outbox = new Outbox({
    async send(order) {
      sent.push(order.id)
      const reply = await answer(order)
      connected.good()
      return reply
    },
    isUp: () => state.isUp,
    connected,
    spool,
    onSettled: () => undefined,
    onLate: () => state.late++,
    onProblem: () => state.problems++,
  })
  return { outbox, state, spool, connected, sent, dir }
}

t.test('a settlement is sent in the same tick', async (t) => {
  const { outbox, sent } = await open(t, async () => ok)
  void outbox.settle(settlement('a'))
  t.same(sent, ['a'])
  await outbox.idle()
})

t.test('answered ones are sent again in order for 30 s of connected time', async (t) => {
  const { outbox, state, connected, sent } = await open(t, async () => ok)
  await outbox.settle(settlement('a'))
  state.nowMs = 20_000
  await outbox.settle(settlement('b'))
  await outbox.replay()
  t.same(sent.splice(0), ['a', 'b', 'a', 'b'])
  connected.lost()
  state.nowMs = 90_000
  await outbox.sweep()
  t.equal(outbox.size, 2, 'time without a reply does not count')
  connected.good()
  state.nowMs = 119_999
  connected.good()
  await outbox.sweep()
  t.equal(outbox.size, 2)
  state.nowMs = 120_000
  connected.good()
  await outbox.sweep()
  t.equal(outbox.size, 0)
})

t.test('a failed settlement waits on disk, and leaves it when answered and old', async (t) => {
  let isFailing = true
  const answer = async () => {
    if (isFailing) throw new Error('away')
    return ok
  }
  const { outbox, state, spool, connected, sent } = await open(t, answer)
  t.equal(await outbox.settle(settlement('a')), undefined)
  state.isUp = false
  t.equal(await outbox.settle(settlement('b')), undefined)
  t.same(sent, ['a'], 'nothing is sent into the void')
  t.equal(spool.size, 2)
  t.equal(outbox.unanswered, 2)
  state.isUp = true
  await t.rejects(outbox.replay(), { code: 'ledger_unavailable' })
  isFailing = false
  await outbox.sweep()
  t.equal(outbox.unanswered, 0)
  t.equal(spool.size, 2, 'Redis may yet forget them')
  state.nowMs = 31_000
  connected.good()
  await outbox.sweep()
  t.equal(spool.size, 0)
})

t.test('a late one is kept apart and given up; one made before is only given up', async (t) => {
  const late: OrderReply = { word: 'late', nowMs: 1, values: ['late', 1] }
  const { outbox, state, spool } = await open(t, async () => late)
  t.equal((await outbox.settle(settlement('a')))?.word, 'late')
  t.equal(outbox.size, 0)
  outbox.adopt([{ ...settlement('b'), wasAnswered: true }])
  await outbox.sweep()
  t.equal(outbox.size, 0)
  t.equal(state.late, 1)
  t.equal(await spool.countLate(), 1)
})

t.test('a late one waits while its file can not be written', async (t) => {
  const late: OrderReply = { word: 'late', nowMs: 1, values: ['late', 1] }
  const { outbox, state, spool, dir } = await open(t, async () => late)
  const inTheWay = join(dir, 'late.ndjson')
  await mkdir(inTheWay)
  await outbox.settle(settlement('a'))
  await outbox.sweep()
  t.match(outbox, { unanswered: 1 })
  t.match(spool, { size: 1 })
  t.match(state, { late: 0, problems: 1 }, 'told once')
  await rmdir(inTheWay)
  await outbox.sweep()
  t.equal(outbox.unanswered, 0)
  t.match(state, { late: 1, problems: 1 })
  t.equal(await spool.countLate(), 1)
})

t.test('a failed credit is not kept: its caller was told', async (t) => {
  const { outbox, state, spool } = await open(t, () => Promise.reject(new Error('away')))
  await t.rejects(outbox.credit(topup))
  state.isUp = false
  await t.rejects(outbox.credit(topup), { code: 'ledger_unavailable' })
  t.equal(outbox.size + spool.size, 0)
})

t.test('a credit that was made is on disk before it is answered', async (t) => {
  const { outbox, spool } = await open(t, async () => ok)
  await outbox.credit(topup)
  t.equal(spool.size, 1)
})

t.test('an adjustment that Redis forgot waits until the balance covers it', async (t) => {
  let word: OrderReply['word'] = 'ok'
  const { outbox, state, spool } = await open(t, async () => ({ ...ok, word }))
  await outbox.credit({ ...topup, type: 'adjustment', amount: -1 })
  word = 'insufficient_balance'
  await outbox.replay()
  await outbox.sweep()
  t.equal(outbox.unanswered, 1)
  t.equal(spool.size, 1)
  t.match(state, { late: 0, problems: 1 }, 'told once')
  word = 'ok'
  await outbox.sweep()
  t.equal(outbox.unanswered, 0)
  word = 'late'
  await outbox.replay()
  t.match(state, { late: 0 }, 'it was made')
})

t.test('one that the balance never covers is late after a day', async (t) => {
  let word: OrderReply['word'] = 'ok'
  const { outbox, state, spool } = await open(t, async () => ({ ...ok, word }))
  await outbox.credit({ ...topup, type: 'adjustment', amount: -1 })
  word = 'insufficient_balance'
  await outbox.replay()
  word = 'late'
  await outbox.sweep()
  t.equal(outbox.unanswered, 0)
  t.equal(state.late, 1)
  t.equal(await spool.countLate(), 1)
})

t.test('a credit whose account Redis forgot is late', async (t) => {
  let word: OrderReply['word'] = 'ok'
  const { outbox, state, spool } = await open(t, async () => ({ ...ok, word }))
  await outbox.credit(topup)
  word = 'account_not_found'
  await outbox.replay()
  t.equal(state.late, 1)
  t.equal(await spool.countLate(), 1)
})

t.test('parking leaves everything to the next start', async (t) => {
  const { outbox, spool } = await open(t, async () => ok)
  await outbox.settle(settlement('a'))
  t.equal(spool.size, 0)
  await outbox.park()
  t.equal(spool.size, 1)
})

t.test('memory is bounded: of more than 100,000 the oldest go', async (t) => {
  const { outbox } = await open(t, async () => ok)
  for (let i = 0; i < 100_050; i++) await outbox.settle(settlement(`${i}`))
  t.equal(outbox.size, 100_000)
})

t.test('a settlement that Redis refuses waits, and delays no other', async (t) => {
  const refused = unavailable(Object.assign(new Error('OOM'), { name: 'ReplyError' }))
  const { outbox, sent } = await open(t, (order) =>
    order.id === 'a' ? Promise.reject(refused) : Promise.resolve(ok),
  )
  t.equal(await outbox.settle(settlement('a')), undefined)
  await outbox.settle(settlement('b'))
  await outbox.replay()
  t.same(sent, ['a', 'b', 'b', 'a'], 'what Redis once took comes first')
  t.equal(outbox.unanswered, 1)
})
