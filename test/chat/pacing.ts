// With `flush`, what a backend sends within that time is handed on in one piece; and nothing waits for longer, not an
// answer's first content, its end, what a client leaves behind, nor the next request on the connection.

import { mock } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import type { Call } from '../fixtures/backend.ts'
import { sse } from '../fixtures/backend-scripts.ts'
import { chatPath, hi } from '../fixtures/chat-path.ts'
import type { ChatPathOptions } from '../fixtures/chat-path.ts'
import { chargesOf } from '../fixtures/money.ts'
import { metricOf } from '../fixtures/metric.ts'
import { until } from '../fixtures/until.ts'

const word = (text: string) => `data: {"choices":[{"index":0,"delta":{"content":"${text}"}}]}\n\n`
const end =
  'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n' +
  'data: {"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":4}}\n\ndata: [DONE]\n\n'
const shownEnd = end.replace(/data: .*"usage".*\n\n/, '')

/** A stream that has begun with `a`. Time stands still until `tick`. */
async function begun(t: Test, options: ChatPathOptions) {
  const path = await chatPath(t, options)
  const calls: Call[] = []
  path.backend.on((call) => {
    calls.push(call)
    call.res.writeHead(200, { 'content-type': 'text/event-stream' })
    call.res.write(word('a'))
  })
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const client = path.leaving({ ...hi, stream: true })
  const pieces: string[] = []
  const reading = (async () => {
    for await (const bytes of (await client.answer).body ?? [])
      pieces.push(Buffer.from(bytes).toString('latin1'))
  })()
  reading.catch(() => undefined)
  await until(() => pieces.length > 0)
  const [call] = calls
  if (!call) throw new Error('the backend was not asked')
  const says = async (text: string) => {
    call.res.write(text)
    for (let turns = 0; turns < 50; turns++) await nextTurn()
  }
  return {
    ...path,
    calls,
    call,
    client,
    pieces,
    reading,
    says,
    tick: (ms: number) => mock.timers.tick(ms),
  }
}

/** In how many pieces streams have gone out, once they have ended. */
const flushes = 'tollgate_flushes_total '

const places: Readonly<Record<string, ChatPathOptions>> = {
  'for all models': { yaml: 'limits: { flush: 50ms }' },
  'for one model': { yaml: 'limits: { flush: 1s }', model: 'flush: 50ms' },
}
for (const [name, options] of Object.entries(places)) {
  t.test(`what comes within the time goes out in one piece: ${name}`, async (t) => {
    const { gate, pieces, says, tick, call, reading } = await begun(t, options)
    for (const text of 'bcd') await says(word(text))
    t.strictSame(pieces, [word('a')], 'the first content did not wait')
    tick(49)
    await says(word('e'))
    t.equal(pieces.length, 1)
    tick(1)
    await until(() => pieces.length > 1)
    t.strictSame(pieces, [word('a'), [...'bcde'].map(word).join('')])
    await says(word('f'))
    t.equal(pieces.length, 2, 'it rests again')
    call.res.end(end)
    tick(50)
    await reading
    t.equal(pieces.join(''), [...'abcdef'].map(word).join('') + shownEnd)
    mock.timers.reset()
    await until(async () => (await metricOf(gate, flushes)) === 3)
  })
}

t.test('without it, each event goes out when it comes', async (t) => {
  const { gate, pieces, says, call, reading } = await begun(t, {})
  for (const text of 'bcd') await says(word(text))
  t.strictSame(pieces, [...'abcd'].map(word))
  call.res.end(end)
  await reading
  mock.timers.reset()
  await until(async () => (await metricOf(gate, flushes)) === 5)
})

t.test('an event that comes after the time does not wait', async (t) => {
  const { pieces, says, tick, call, reading } = await begun(t, { model: 'flush: 50ms' })
  for (const text of 'bcd') {
    tick(50)
    await says(word(text))
  }
  t.strictSame(pieces, [...'abcd'].map(word))
  call.res.end(end)
  tick(50)
  await reading
})

t.test('when the client leaves, what waited is charged', async (t) => {
  const { gate, id, key, client, says, call, spent } = await begun(t, { model: 'flush: 1s' })
  for (const text of 'bcd') await says(word(` ${text}`))
  client.leave()
  await until(() => call.res.destroyed)
  mock.timers.reset()
  await spent()
  const [charge] = await chargesOf(gate, { id, key })
  t.equal(charge?.usage?.completion_tokens, 4)
})

t.test('when the time is over, what waited is sent and charged', async (t) => {
  const options = { model: 'flush: 1s, timeouts: { total: 500ms }' }
  const { gate, id, key, says, tick, pieces, reading, spent } = await begun(t, options)
  for (const text of 'bcd') await says(word(` ${text}`))
  tick(500)
  await reading
  t.match(pieces.join(''), / b.* c.* d.*"code":"upstream_timeout"/s)
  mock.timers.reset()
  await spent()
  const [charge] = await chargesOf(gate, { id, key })
  t.equal(charge?.usage?.completion_tokens, 4)
})

t.test('the next request on the connection does not wait', async (t) => {
  const { says, tick, call, reading, stream, backend } = await begun(t, { model: 'flush: 1s' })
  await says(word('b'))
  call.res.end(end)
  tick(1000)
  await reading
  backend.once(sse([word('c') + end]))
  t.equal(await (await stream()).text(), word('c') + shownEnd)
  t.equal(backend.connections, 1)
})
