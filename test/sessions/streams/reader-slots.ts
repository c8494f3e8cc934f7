// A reader has one slot of its account's, however it reads, and gives it back once.

import t from 'tap'
import type { Exchange } from '../../../src/exchange.ts'
import { ReaderSlots } from '../../../src/sessions/streams/reader-slots.ts'
import { createSlots } from '../../../src/sharing/slots.ts'
import { SharedPool } from '../../../src/sharing/shared-pool.ts'

const newExchange = () => ({}) as unknown as Exchange

/** Slots for one reader. */
const oneSlot = () => new ReaderSlots(createSlots({ most: 1, pool: new SharedPool(100) }))

t.test('an exchange has one slot until it ends', (t) => {
  const slots = oneSlot()
  const [first, second] = [newExchange(), newExchange()]
  slots.take(first, 'a')
  slots.take(first, 'a')
  t.throws(() => slots.take(second, 'a'))
  slots.leave(second)
  t.throws(() => slots.take(second, 'a'), 'it had none to give back')
  slots.leave(first)
  slots.take(second, 'a')
  t.end()
})

t.test('who pays needs a slot when what was paid for has ended', async (t) => {
  const slots = oneSlot()
  const [other, next] = [newExchange(), newExchange()]
  slots.take(other, 'a')
  const paid = Promise.withResolvers<void>()
  let cuts = 0
  const leave = slots.takeAfter(paid.promise, 'a', () => cuts++)
  t.equal(cuts, 0)
  paid.reject(new Error('an end, too'))
  await paid.promise.catch(() => undefined)
  t.equal(cuts, 1, 'there is none left')
  leave()
  slots.leave(other)
  const again = slots.takeAfter(Promise.resolve(), 'a', () => cuts++)
  await Promise.resolve()
  t.throws(() => slots.take(next, 'a'), 'it has the slot')
  again()
  slots.take(next, 'a')
  t.equal(cuts, 1)
})

t.test('who has left before takes none', async (t) => {
  const slots = oneSlot()
  const leave = slots.takeAfter(Promise.resolve(), 'a', () => t.fail('cut off'))
  leave()
  await Promise.resolve()
  slots.take(newExchange(), 'a')
  t.pass('it is free')
})
