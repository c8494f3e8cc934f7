import { getEventListeners } from 'node:events'
import t from 'tap'
import { soon, unlessAborted } from '../../src/files/patience.ts'

const never = new Promise<never>(() => {})
const broken = async () => {
  throw new Error('broken')
}

t.test('work that ends first is what counts, and the signal is let go', async (t) => {
  const { signal } = new AbortController()
  t.equal(await unlessAborted(Promise.resolve(1), signal), 1)
  await t.rejects(unlessAborted(broken(), signal), { message: 'broken' })
  t.strictSame(getEventListeners(signal, 'abort'), [])
})

t.test('an abort ends the wait with its reason, and work may fail later', async (t) => {
  const stop = new AbortController()
  const work = Promise.withResolvers<void>()
  const waiting = [unlessAborted(never, stop.signal), unlessAborted(work.promise, stop.signal)]
  stop.abort(new Error('late'))
  for (const one of waiting) await t.rejects(one, { message: 'late' })
  await t.rejects(unlessAborted(broken(), stop.signal), { message: /late|broken/ })
  await t.rejects(unlessAborted(never, stop.signal), { message: 'late' })
  work.reject(new Error('nobody hears of it'))
})

t.test('soon waits for an end of any kind, or for its time', async () => {
  await soon(Promise.resolve(), 1e6)
  await soon(broken(), 1e6)
  await soon(never, 1)
})
