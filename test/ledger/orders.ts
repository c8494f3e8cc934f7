import t from 'tap'
import { releaseOrder, settleOrder } from '../../src/ledger/settlement.ts'
import { hourOfHold, orderKey, sendOrder } from '../../src/ledger/orders.ts'
import { ledgerScripts } from '../../src/ledger/library.ts'
import type { LedgerScripts } from '../../src/ledger/library.ts'
import { keys } from '../../src/redis/redis.ts'
import { createScripts } from '../../src/redis/scripts.ts'
import type { Reply } from '../../src/redis/scripts.ts'
import {
  connectLink,
  makeAccount,
  newHoldId,
  openLedger,
  request,
  topUp,
  used,
} from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'

const hourMs = 3_600_000
const id = `${(100 * 24 * hourMs + 5).toString(16).padStart(12, '0')}${'0'.repeat(20)}`

t.test('the id of a hold contains its hour', async (t) => {
  t.equal(hourOfHold(id), 2400)
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
    await sendOrder(scripts, one)
  }
  t.match(
    sent.map(([numbers]) => numbers),
    [/^\S+ 0 0 0 0 0 0 0$/, /^\S+ 0 0 0 0 0 0 9$/],
  )
})

t.test('a hold that crosses an hour, or midnight, settles once', async (t) => {
  const server = await startRedis(t)
  const link = await connectLink(t, server.socket)
  const ledger = await openLedger(t, { link })
  const scripts = createScripts({ link, library: ledgerScripts })
  const dayMs = 24 * hourMs
  const midnight = Math.floor(Date.now() / dayMs) * dayMs
  for (const madeMs of [Date.now() - hourMs, midnight - 1]) {
    const caller = await makeAccount(link)
    const { ref } = caller
    await topUp(ledger, caller, 100)
    const holdId = `${madeMs.toString(16).padStart(12, '0')}${newHoldId().slice(12)}`
    const hold = await ledger.admit(request(caller, 10, { holdId }))
    const order = settleOrder(hold, used(6))
    for (const isRepeated of [0, 1, 1]) {
      const { word, values } = await sendOrder(scripts, order)
      t.same([word, ...values.slice(2)], ['ok', '6', '0', '94', isRepeated])
    }
    t.match(await ledger.balance(ref), { balance: 94, reserved: 0 })
    t.equal(await link.client.hget(keys.settled(ref, hourOfHold(holdId)), holdId), 's 6 0')
    const [day] = await link.client.keys(`{${ref}}:usage:d*`)
    t.equal(await link.client.hget(day ?? '', `m|key_${ref}`), '1 7 2 5 6')
  }
})
