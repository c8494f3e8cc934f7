// The line before a model's targets: how long, for how long, and what those are told who find no room.

import t from 'tap'
import { WaitingLine } from '../../src/backend/waiting-line.ts'
import { GatewayError } from '../../src/errors.ts'
import { soon, until } from '../fixtures/until.ts'

function lineOf(length = 2, waitMs = 60_000) {
  const line = new WaitingLine(() => ({ length, waitMs }))
  let room = 0
  const wait = (
    account: string,
    { signal = new AbortController().signal, ms = waitMs, since = performance.now() } = {},
  ) => {
    const take = () => (room > 0 ? room-- : undefined)
    const waiting = line.wait({ account, since, signal, until: performance.now() + ms, take })
    waiting.catch(() => undefined)
    return waiting
  }
  const serve = (seats: number) => {
    room = seats
    line.serve()
    return room
  }
  return { line, wait, serve }
}

const unavailable = { code: 'upstream_unavailable', status: 503 }

t.test('each gets one seat, and what nobody needs stays', async (t) => {
  const { line, wait, serve } = lineOf()
  const both = [wait('a'), wait('a')]
  t.equal(serve(1), 0)
  await both[0]
  t.equal(line.size, 1)
  t.equal(serve(3), 2)
  await both[1]
  t.equal(line.size, 0)
})

t.test('who waits again has kept its place among the requests of its account', async (t) => {
  const { wait, serve } = lineOf(10)
  const order: string[] = []
  const note = (name: string, waiting: Promise<unknown>) => waiting.then(() => order.push(name))
  const all = [
    note('second', wait('a', { since: 2 })),
    note('third', wait('a', { since: 3 })),
    note('other', wait('b', { since: 4 })),
    note('first', wait('a', { since: 1 })),
  ]
  for (let i = 0; i < 4; i++) serve(1)
  await Promise.all(all)
  t.strictSame(order, ['first', 'other', 'second', 'third'])
})

t.test('where it is full, the account with most gives up its newest', async (t) => {
  const { line, wait, serve } = lineOf()
  const [first, second] = [wait('a'), wait('a')]
  const third = wait('b')
  await t.rejects(soon(second), unavailable)
  await t.rejects(wait('a'), unavailable)
  await t.rejects(wait('c'), unavailable)
  t.equal(line.size, 2)
  serve(2)
  await Promise.all([first, third])
})

t.test('a wait ends with its time, its signal or a refusal, and leaves the line', async (t) => {
  const { line, wait } = lineOf(10)
  await t.rejects(wait('a', { ms: 10 }), unavailable)
  const gone = new AbortController()
  const leaving = wait('a', { signal: gone.signal })
  gone.abort(new GatewayError('server_draining'))
  await t.rejects(leaving, { code: 'server_draining' })
  await t.rejects(wait('a', { signal: gone.signal }), { code: 'server_draining' })
  t.equal(line.size, 0)
  const others = [wait('a'), wait('b')]
  line.refuseAll(new GatewayError('upstream_unavailable'))
  for (const other of others) await t.rejects(other, unavailable)
  t.equal(line.size, 0)
})

async function told(waiting: Promise<unknown>): Promise<number> {
  const error = await waiting.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  return error instanceof GatewayError ? (error.retryAfterMs ?? 0) : 0
}

t.test('Retry-After is what the line takes at the rate at which it moved', async (t) => {
  const { line, wait, serve } = lineOf(50, 200_000)
  for (let i = 0; i < 50; i++) void wait('a')
  t.equal(await told(wait('a')), 200_000, 'it has not moved yet')
  // One each 40 ms or so.
  let servedAt = performance.now()
  for (let i = 0; i < 5; i++) {
    await until(() => performance.now() - servedAt >= 40)
    servedAt = performance.now()
    serve(1)
  }
  while (line.size < 50) void wait('a')
  const ms = await told(wait('a'))
  t.ok(ms >= 51 * 40 && ms < 100_000, `${ms}`)
  line.refuseAll(new GatewayError('upstream_unavailable'))
})

t.test('the time in which nobody waited is no part of the rate', async (t) => {
  const { line, wait, serve } = lineOf(50)
  const gone = new AbortController()
  const all = [wait('a'), wait('a'), wait('a', { signal: gone.signal })]
  for (let i = 0; i < 2; i++) serve(1)
  gone.abort(new GatewayError('upstream_unavailable'))
  await Promise.allSettled(all)
  const emptyAt = performance.now()
  await until(() => performance.now() - emptyAt >= 200)
  for (let i = 0; i < 50; i++) void wait('a')
  serve(2)
  while (line.size < 50) void wait('a')
  t.equal(await told(wait('a')), 1000, 'the least')
  line.refuseAll(new GatewayError('upstream_unavailable'))
})
