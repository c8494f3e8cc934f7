import t from 'tap'
import { hourOfHold } from '../../src/ledger/hold-rows.ts'
import {
  createSettle,
  orderKey,
  releaseOrder,
  reportSettled,
  sendOrder,
  settleOrder,
  toSettled,
} from '../../src/ledger/orders.ts'
import type { SettleOrder } from '../../src/ledger/orders.ts'
import { ledgerScripts } from '../../src/ledger/library.ts'
import { keys } from '../../src/redis/keys.ts'
import { createScripts } from '../../src/redis/scripts.ts'
import {
  makeAccount,
  makeHold,
  newHoldId,
  openOn,
  request,
  topUp,
  used,
} from '../fixtures/ledger.ts'
import { withinOne } from '../fixtures/windows.ts'

const hourMs = 3_600_000
const id = `${(100 * 24 * hourMs + 5).toString(16).padStart(12, '0')}${'0'.repeat(20)}`

t.test('an order is known by its kind, its account and its id', async (t) => {
  t.equal(orderKey(releaseOrder('r', 'h', 'i')), 'settle:r:i')
})

function recording() {
  const sent: (readonly unknown[])[] = []
  const evalsha = async (_sha: string, keyCount: number, ...words: readonly unknown[]) => {
    sent.push(words.slice(keyCount))
    return ['ok', 1]
  }
  const link = Object({ client: { evalsha } })
  return { sent, scripts: createScripts({ library: ledgerScripts, link }) }
}

t.test('an order is sent with prompt, cached and completion after its charge', async (t) => {
  const { sent, scripts } = recording()
  const counts = { prompt: 30, cached: 10, completion: 4 }
  await sendOrder(scripts, { ...releaseOrder('r', 'h', 'i'), ...counts, charge: 9, counted: 50 })
  t.strictSame(sent, [['i 9 30 10 4 50 0 0 1', '- -', '', '{}']])
})

t.test('an order of an older spool, without what is newer, can be sent', async (t) => {
  const { sent, scripts } = recording()
  const order = releaseOrder('r', 'h', id)
  for (const one of [order, { ...order, implausible: 9 }]) {
    await sendOrder(scripts, one)
  }
  t.match(
    sent.map(([numbers]) => numbers),
    [/^\S+ 0 0 0 0 0 0 0 1$/, /^\S+ 0 0 0 0 0 0 9 1$/],
  )
})

t.test('a hold that crosses an hour, or midnight, settles once', async (t) => {
  const { link, ledger } = await openOn(t)
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
      t.same([word, ...values.slice(2)], ['ok', '6', '0', '94', isRepeated, '0'])
    }
    t.match(await ledger.balance(ref), { balance: 94, reserved: 0 })
    t.equal(await link.client.hget(keys.settled(ref, hourOfHold(holdId)), holdId), 's 6 0')
    const [day] = await link.client.keys(`{${ref}}:usage:d*`)
    t.match(await link.client.hget(day ?? '', `m|key_${ref}|all`), /^1 7 2 5 6 0 /)
  }
})

const heldOne = () => makeHold({ model: 'm%2F1', meta: '{"a":1}', countedTokens: 30, minute: 7 })

t.test('marks are kept for 25 hours after the last one of their hour', async (t) => {
  const { link, ledger } = await openOn(t)
  const scripts = createScripts({ library: ledgerScripts, link })
  const found = await withinOne(hourMs, async () => {
    const caller = await makeAccount(link)
    await topUp(ledger, caller, 100)
    const hashOf = (ms: number) => keys.settled(caller.ref, Math.floor(ms / hourMs))
    /** For how many hours the marks are kept after a settlement of a hold that was made then. */
    const hoursAfter = async (ms: number) => {
      const made = `${ms.toString(16).padStart(12, '0')}${newHoldId().slice(12)}`
      await sendOrder(scripts, settleOrder(makeHold({ ...caller, id: made }), used(1)))
      return (await link.client.pttl(hashOf(ms))) / hourMs
    }
    const hoursAfterTwo = async (ms: number) => {
      const first = await hoursAfter(ms)
      await link.client.expire(hashOf(ms), 60)
      return [first, await hoursAfter(ms)] as const
    }
    const now = Date.now()
    // A gateway of an earlier version has made the hash.
    await link.client.hset(hashOf(now), newHoldId(), 's 1 0')
    await link.client.expire(hashOf(now), 25 * 3600)
    const restOfHour = 1 - (now % hourMs) / hourMs
    // While that hour ran, a settlement provided for the others in it.
    await link.client.hset(hashOf(now - hourMs), 'kept', 1)
    const earlier = await hoursAfterTwo(now - hourMs)
    // By a gateway whose clock is ahead.
    const later = await hoursAfterTwo(now + hourMs)
    return { restOfHour, same: await hoursAfterTwo(now), others: [...earlier, ...later] }
  })
  const [first, second] = found.same
  t.ok(first > 25 + found.restOfHour)
  // The first settlement of the hour has provided for the others.
  t.ok(second < 1)
  t.ok(found.others.every((hours) => hours > 25))
})

t.test('an order says all that a Redis without the hold needs to charge', async (t) => {
  t.same(
    settleOrder(heldOne(), {
      charge: 5,
      prompt: 4,
      cached: 2,
      completion: 3,
      estimated: true,
      cut: true,
      implausible: 8,
    }),
    {
      kind: 'settle',
      ref: 'r',
      accountId: 'a',
      hmac: 'x',
      id: 'h',
      charge: 5,
      prompt: 4,
      cached: 2,
      completion: 3,
      counted: 30,
      minute: 7,
      implausible: 8,
      keyId: 'k',
      keyHasLimits: false,
      model: 'm%2F1',
      flags: 'ec',
      meta: '{"a":1}',
    },
  )
})

t.test('no number of a backend gets into the sums that they can not take', async (t) => {
  const order = settleOrder(heldOne(), {
    charge: 2 ** 60,
    prompt: 1e300,
    cached: Number.NaN,
    completion: -4.5,
  })
  t.match(order, {
    charge: Number.MAX_SAFE_INTEGER,
    prompt: 1e12,
    cached: 0,
    completion: 0,
    flags: '',
  })
})

t.test('a hold is settled once, in the tick of the first call', async (t) => {
  const told: unknown[] = []
  const outbox = {
    async settle({ charge }: SettleOrder) {
      told.push(charge)
      return undefined
    },
  }
  const settle = createSettle({ outbox, onEnded: ({ id }) => void told.push(id) })
  const hold = makeHold()
  const settled = settle(hold, used(5))
  t.equal(settle(hold, used(9)), settled)
  t.same(told, ['h', 5])
  t.same(await settled, { charge: 5, owed: 0, waived: 0, isWaiting: true })
})

t.test('what became of it', async (t) => {
  const order = { ...releaseOrder('r', 'x', 'h'), charge: 9 }
  t.same(toSettled(order, undefined), { charge: 9, owed: 0, waived: 0, isWaiting: true })
  t.same(toSettled(order, { word: 'late', nowMs: 1, values: [] }), {
    charge: 0,
    owed: 0,
    waived: 0,
    isWaiting: false,
  })
  t.same(toSettled(order, { word: 'ok', nowMs: 1, values: ['ok', 1, '9', '5', '0', 0, '3'] }), {
    charge: 9,
    owed: 5,
    waived: 3,
    isWaiting: false,
  })
})

t.test('what an account owes then, and what was not believed, is told once', async (t) => {
  const told: unknown[] = []
  const onImplausible = (tokens: number) => void told.push(tokens)
  const onOwing = (ref: string) => void told.push(ref)
  const order = { ...releaseOrder('r', 'x', 'h'), implausible: 8 }
  const reply = (owed: string, isRepeated: 0 | 1) =>
    ({ word: 'ok', nowMs: 1, values: ['ok', 1, '4', owed, '9', isRepeated] }) as const
  reportSettled(reply('5', 0), order, { onOwing, onImplausible })
  reportSettled(reply('0', 1), order, { onOwing, onImplausible })
  t.strictSame(told, ['r', 8])
})
