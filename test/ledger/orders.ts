import t from 'tap'
import { createRedisClock, hourMs } from '../../src/ledger/clock.ts'
import { releaseOrder } from '../../src/ledger/ending.ts'
import { dayOf, hourOfHold, orderKey, sendOrder } from '../../src/ledger/orders.ts'
import type { LedgerScripts } from '../../src/ledger/library.ts'
import type { Reply } from '../../src/scripts.ts'

const id = `${(100 * 24 * hourMs + 5).toString(16).padStart(12, '0')}${'0'.repeat(20)}`

t.test('the hour of a hold is in its id', async (t) => {
  t.equal(hourOfHold(id), 2400)
  t.equal(dayOf(2423), 100)
  t.equal(orderKey(releaseOrder('r', 'h', 'i')), 'settle:r:i')
})

t.test('an order of an older spool, without what is implausible, can be sent', async (t) => {
  const ok: Reply = { word: 'ok', nowMs: 1, values: [] }
  const sent: (readonly unknown[])[] = []
  const run: LedgerScripts['run'] = async (_name, _keys, words) => {
    sent.push(words)
    return ok
  }
  const scripts: LedgerScripts = { run, load: async () => undefined }
  const order = releaseOrder('r', 'h', id)
  for (const one of [order, { ...order, implausible: 9 }]) {
    await sendOrder(scripts, createRedisClock(), one)
  }
  t.match(
    sent.map(([, numbers]) => numbers),
    [/^\S+ 0 0 0 0 0 0 0$/, /^\S+ 0 0 0 0 0 0 9$/],
  )
})

t.test('an order is sent again when the hour was wrong, but not for ever', async (t) => {
  const sent: (readonly string[])[] = []
  const wrong: Reply = { word: 'clock', nowMs: 1, values: [] }
  const run: LedgerScripts['run'] = async (_name, keys) => {
    sent.push(keys)
    return wrong
  }
  const scripts: LedgerScripts = { run, load: async () => undefined }
  const clock = createRedisClock(() => 48 * hourMs)
  await t.rejects(sendOrder(scripts, clock, releaseOrder('r', 'h', id)), {
    code: 'ledger_unavailable',
  })
  t.equal(sent.length, 4)
  t.same(sent[0]?.slice(-3), ['{r}:usage:h48', '{r}:usage:d2', '{r}:settled:2400'])
})
