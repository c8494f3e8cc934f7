import { getEventListeners, once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { Socket } from 'node:net'
import { mock } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { PatientTimer, soon, unlessAborted, within } from '../../src/sharing/patience.ts'
import { handClock } from '../fixtures/hand-clock.ts'
import { listenOn } from '../fixtures/listen.ts'
import { standStill } from '../fixtures/stand-still.ts'
import { until } from '../fixtures/until.ts'

const never = new Promise<never>(() => {})
const broken = async () => {
  throw new Error('broken')
}

t.test('work that ends first is the result, and the signal is released', async (t) => {
  const { signal } = new AbortController()
  t.equal(await unlessAborted(Promise.resolve(1), signal), 1)
  await t.rejects(unlessAborted(broken(), signal), { message: 'broken' })
  t.strictSame(getEventListeners(signal, 'abort'), [])
})

t.test('an abort ends the wait with its reason, and the work may fail later', async (t) => {
  const stop = new AbortController()
  const work = Promise.withResolvers<void>()
  const waiting = [unlessAborted(never, stop.signal), unlessAborted(work.promise, stop.signal)]
  stop.abort(new Error('late'))
  for (const one of waiting) await t.rejects(one, { message: 'late' })
  await t.rejects(unlessAborted(broken(), stop.signal), { message: /late|broken/ })
  await t.rejects(unlessAborted(never, stop.signal), { message: 'late' })
  work.reject(new Error('nobody hears of it'))
})

t.test('soon waits for an end of any kind, or for its time', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const seen: string[] = []
  const note = (what: string, work: Promise<unknown>) =>
    void soon(work, 1000).then(() => seen.push(what))
  const turns = () => new Promise(setImmediate)
  const later = Promise.withResolvers<void>()
  note('good', Promise.resolve())
  note('broken', broken())
  note('later', later.promise)
  note('never', never)
  await turns()
  t.strictSame(seen, ['good', 'broken'])
  mock.timers.tick(999)
  later.resolve()
  await turns()
  t.strictSame(seen, ['good', 'broken', 'later'])
  mock.timers.tick(1)
  await turns()
  t.strictSame(seen, ['good', 'broken', 'later', 'never'])
})

t.test('within gives the result, the failure, or the name of what takes too long', async (t) => {
  t.equal(await within(Promise.resolve(1), 1e6, 'it'), 1)
  await t.rejects(within(broken(), 1e6, 'it'), { message: 'broken' })
  await t.rejects(within(never, 1, 'it'), { message: 'it took more than 1 ms' })
})

t.test('soon and within leave no timer behind', async (t) => {
  const timers = () => process.getActiveResourcesInfo().filter((one) => one === 'Timeout').length
  const before = timers()
  await soon(Promise.resolve(), 1e6)
  await soon(broken(), 1e6)
  await within(Promise.resolve(), 1e6, 'it')
  t.equal(timers(), before)
})

t.test('a timer that is late looks once more for what has come, and may begin again', async (t) => {
  const server = createServer()
  const { port } = await listenOn(t, server)
  const client = connect(port)
  t.teardown(() => client.destroy())
  const [socket] = (await once(server, 'connection')) as [Socket]
  const ended: string[] = []
  const timer = new PatientTimer(() => ended.push('read'), 20)
  const cleared = new PatientTimer(() => ended.push('cleared'), 20)
  t.notOk(new PatientTimer(() => ended.push('unread'), 20).isLate)
  const read = once(client, 'data').then(() => {
    t.ok(timer.isLate)
    timer.refresh()
    t.notOk(timer.isLate)
    cleared.clear()
    t.strictSame(ended, [])
  })
  socket.write('x')
  standStill(50)
  await read
  await until(() => ended.includes('read'))
  t.strictSame(ended, ['unread', 'read'])
})

t.test('a timer that is refreshed ends its whole time after the last refresh', async (t) => {
  const { pass } = handClock(t, 'setTimeout')
  let ends = 0
  const timer = new PatientTimer(() => ends++, 100)
  const ended = async (ms: number) => {
    pass(ms)
    await nextTurn()
    return ends
  }
  for (const ms of [60, 60, 70, 60, 80]) {
    t.equal(await ended(ms), 0)
    timer.refresh()
  }
  t.equal(await ended(90), 0)
  t.equal(await ended(10), 1)
  timer.refresh()
  t.equal(await ended(90), 1)
  t.equal(await ended(10), 2, 'also after its end')
  timer.clear()
  timer.refresh()
  t.equal(await ended(200), 2, 'a cleared one does not come back')
})
