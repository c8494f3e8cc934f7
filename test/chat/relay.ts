// Streams through the gateway: four real servers replayed byte for byte, and every way in which a stream can end.

import { once } from 'node:events'
import { connect } from 'node:net'
import { mock } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { z } from 'zod'
import type { Plugin } from '../../src/plugin.ts'
import type { Call } from '../fixtures/backend.ts'
import { chat, endless } from '../fixtures/backend-model.ts'
import { captured, pause, replay, sse } from '../fixtures/backend-scripts.ts'
import { chatPath, hi } from '../fixtures/chat-path.ts'
import type { ChatPathOptions } from '../fixtures/chat-path.ts'
import { eventsOf } from '../fixtures/sse-events.ts'
import { standStill } from '../fixtures/stand-still.ts'
import { until } from '../fixtures/until.ts'

const word = 'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
const finish = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'

const reported =
  'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3000}}\n\ndata: [DONE]\n\n'

/** Data values, latin1. */
async function valuesOf(answer: Response): Promise<string[]> {
  const text = Buffer.from(await answer.arrayBuffer()).toString('latin1')
  return text
    .split('\n\n')
    .filter(Boolean)
    .map((block) => block.replace(/^data: /, '').replaceAll('\ndata: ', '\n'))
}

t.test('data values of four servers arrive byte for byte, [DONE] only after success', async (t) => {
  const { backend, ask } = await chatPath(t)
  for (const server of ['llama', 'tf', 'llamapy', 'ollama']) {
    for (const kind of ['usage-on', 'usage-off', 'usage-absent', 'mct', 'tools']) {
      const capture = `${server}-stream-${kind}.sse`
      if (captured(capture).includes('HTTP/1.1 400')) continue // refuses tools
      const events = eventsOf(capture).filter((data) => data !== '[DONE]')
      const isFinished = events.some((data) => /"finish_reason":\s*"/.test(data))
      backend.once(replay(capture))
      const body = { ...hi, stream: true, stream_options: { include_usage: true } }
      const got = await valuesOf(await ask(body))
      t.strictSame(got.slice(0, -1), events, capture)
      if (isFinished) t.equal(got.at(-1), '[DONE]', capture)
      else t.match(got.at(-1), /"code":"upstream_incomplete"/, capture)
    }
  }
})

t.test('a usage chunk that nobody asked for is removed, and nothing else', async (t) => {
  const { backend, stream } = await chatPath(t)
  const all = eventsOf('llama-stream-usage-on.sse')
  backend.once(replay('llama-stream-usage-on.sse'))
  const got = await valuesOf(await stream())
  t.strictSame(
    got,
    all.filter((data) => !/"choices":\[\]/.test(data)),
  )
  t.equal(got.length, all.length - 1)
})

t.test('an error event is passed on as the terminal, masked; [DONE] after it is not', async (t) => {
  const { backend, stream } = await chatPath(t, { target: 'key: sk-secret-1' })
  const error = 'data: {"error": {"message":"bad sk-secret-1", "n":1.0}}\n\n'
  backend.once(sse([word, error, 'data: [DONE]\n\n']))
  const text = await (await stream()).text()
  t.equal(text, word + error.replace('sk-secret-1', '***'))
  const harmless = word.replace('{"choices"', '{"error": null,"choices"')
  backend.once(sse([harmless, finish, 'data: [DONE]\n\n']))
  t.equal(await (await stream()).text(), `${harmless}${finish}data: [DONE]\n\n`)
})

const errorEvents: Readonly<
  Record<string, readonly [error: unknown, status: number, code: string]>
> = {
  'its own 400, word for word': [{ message: 'too long', code: 400 }, 400, ''],
  'its own 413 by a text': [{ message: 'too long', code: '413' }, 413, ''],
  'our credential': [{ message: 'no', code: 401 }, 502, 'upstream_auth_error'],
  'a rate': [{ message: 'slow', code: 429 }, 429, 'upstream_rate_limited'],
  'too busy': [{ message: 'full', code: 503 }, 503, 'upstream_unavailable'],
  'by a status': [{ message: 'full', status: 503, code: 'x' }, 503, 'upstream_unavailable'],
  'its fault': [{ message: 'oom', code: 500 }, 502, 'upstream_error'],
  'a word': [{ message: 'oom', code: 'theirs' }, 502, 'upstream_error'],
  'a text': ['oom', 502, 'upstream_error'],
  'no status': [{ code: 200 }, 502, 'upstream_error'],
  'no number': [{ code: 1e300 }, 502, 'upstream_error'],
}

for (const [name, [error, status, code]] of Object.entries(errorEvents)) {
  t.test(`an error before any content is a status: ${name}`, async (t) => {
    const { backend, stream, spent } = await chatPath(t, { target: 'key: sk-secret-1' })
    const said = JSON.stringify({ error, n: 'sk-secret-1' })
    const masked = said.replace('sk-secret-1', '***')
    const role = word.replace('"content":"a"', '"role":"assistant"')
    for (const pieces of [
      [`data: ${said}\n\n`],
      [role, `event: error\ndata: ${said}\n\n`],
      [said],
    ]) {
      backend.once(sse(pieces))
      const answer = await stream()
      t.equal(answer.status, status)
      const body = await answer.text()
      if (code === '') t.equal(body, masked)
      else t.match(JSON.parse(body), { error: { code } })
    }
    t.equal(await spent(), 0)
  })
}

t.test('an empty finish_reason is none', async (t) => {
  const { backend, stream } = await chatPath(t)
  const open = word.replace('}]', ',"finish_reason":""}]')
  backend.once(sse([open], { end: 'cut' }))
  const cut = await valuesOf(await stream())
  t.match(cut.at(-1), /upstream_incomplete/)
  backend.once(sse([open, open, finish, 'data: [DONE]\n\n']))
  const whole = await valuesOf(await stream())
  t.equal(whole.length, 4)
  t.equal(whole.at(-1), '[DONE]')
})

t.test('a cut before content is 502; after content the stream says so', async (t) => {
  const { backend, stream, spent } = await chatPath(t)
  backend.once(sse([word.replace('"content":"a"', '"role":"assistant"')], { end: 'cut' }))
  const early = await stream()
  t.equal(early.status, 502)
  t.match(await early.json(), { error: { code: 'upstream_incomplete' } })
  t.equal(await spent(), 0)
  for (const pieces of [[word], [word, 'data: [DONE]\n\n']]) {
    backend.once(sse(pieces, { end: pieces.length > 1 ? true : 'cut' }))
    const late = await stream()
    t.equal(late.status, 200)
    const got = await valuesOf(late)
    t.match(got.at(-1), /^\{"error":.*"upstream_incomplete".*"request_id":"req_/)
    t.equal(got.length, 2)
  }
  t.ok((await spent()) > 0, 'what was generated is charged')
})

t.test('all choices have to finish', async (t) => {
  const { backend, ask } = await chatPath(t)
  backend.once(chat({ chunks: 2 }))
  const whole = await valuesOf(await ask({ ...hi, n: 2, stream: true }))
  t.equal(whole.at(-1), '[DONE]')
  const other = word.replace('"index":0', '"index":1')
  backend.once(sse([word, other, finish, 'data: [DONE]\n\n']))
  const half = await valuesOf(await ask({ ...hi, n: 2, stream: true }))
  t.match(half.at(-1), /upstream_incomplete/)
})

t.test('a backend that runs past its bound is stopped, as at its length', async (t) => {
  const { backend, ask } = await chatPath(t)
  backend.on(endless({ gapMs: 1 }))
  const got = await valuesOf(await ask({ ...hi, max_tokens: 4, stream: true }))
  t.equal(got.at(-1), '[DONE]')
  t.match(got.at(-2), /"finish_reason":"length"/)
  t.ok(await backend.requests[0]?.closed)
})

t.test('a stream that begins with its prompt is not one that ran away', async (t) => {
  const { backend, ask, spent } = await chatPath(t, { model: 'endpoints: [completions]' })
  const prompt = 'word '.repeat(3000)
  const last = 'data: {"choices":[{"index":0,"text":"own","finish_reason":"stop"}]}\n\n'
  backend.once(async ({ res }) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const text of [prompt, 'a', 'b', 'c']) {
      res.write(`data: {"choices":[{"index":0,"text":"${text}"}]}\n\n`)
      await pause(50)
    }
    res.end(last + reported)
  })
  const body = { model: 'm', prompt, echo: true, max_tokens: 5, stream: true }
  const got = await valuesOf(await ask(body, '/v1/completions'))
  t.equal(got.length, 6)
  t.match(got.at(-2), /own/)
  t.equal(await spent(), 7 + 2 * 5 + 64, 'of an impossible report, what can be')
})

t.test('an account suspended meanwhile ends the stream at its next checkpoint', async (t) => {
  const { backend, gate, id, stream } = await chatPath(t, {
    yaml: 'plugins: { metering: { lease: 1s } }',
  })
  backend.on(endless({ gapMs: 20 }))
  const answer = await stream()
  t.equal(answer.status, 200)
  t.equal((await gate.admin('PATCH', `accounts/${id}`, { status: 'suspended' })).status, 200)
  const got = await valuesOf(answer)
  t.match(got.at(-1), /"code":"account_suspended"/)
  t.ok(await backend.requests[0]?.closed)
})

t.test('what is held back before any content has a limit: then it is passed on', async (t) => {
  const { backend, stream } = await chatPath(t, {
    yaml: 'limits: { first_byte: 5m }',
    model: 'timeouts: { first_token: 10s }',
  })
  const role = word.replace('"content":"a"', '"role":"assistant"')
  const piece = role.replace('{"choices"', `{"id":"${'x'.repeat(64 * 1024)}","choices"`)
  backend.on(sse(Array(20).fill(piece), { end: false }))
  const answer = await stream()
  t.equal(answer.status, 200)
  await answer.body?.cancel()
})

t.test('when more has been held for a stream, silence counts again', async (t) => {
  const { backend, stream } = await chatPath(t, {
    model: 'timeouts: { idle: 5s }',
    yaml: 'plugins: { metering: { hold: { mode: sliced, slice: 64 } } }',
  })
  backend.on(({ res }) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    // Far more than a slice at once, so the stream is paused until more is held.
    res.write(word.repeat(200) + word.replace('"a"', '"the last"'))
  })
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const answer = await stream({ ...hi, max_tokens: 1000 })
  let text = ''
  const reading = (async () => {
    for await (const bytes of answer.body ?? []) text += Buffer.from(bytes).toString('latin1')
  })()
  reading.catch(() => undefined)
  while (!text.includes('the last')) await nextTurn()
  mock.timers.tick(5000)
  await untilSame(() => text)
  t.match(text, /"code":"upstream_timeout"/)
})

t.test('while a client is slow, silence does not count; afterwards it does', async (t) => {
  const { backend, gate, key } = await chatPath(t, { model: 'timeouts: { idle: 5s }' })
  const piece = word.replace('{"choices"', `{"id":"${'x'.repeat(64 * 1024)}","choices"`)
  const last = word.replace('"a"', '"the last"')
  const calls: Call[] = []
  backend.on((call) => {
    calls.push(call)
    call.res.writeHead(200, { 'content-type': 'text/event-stream' })
    // More than all sockets between here and the client can hold.
    for (let i = 0; i < 512; i++) call.res.write(piece)
    call.res.write(last)
  })
  const client = connect({ port: Number(new URL(gate.url).port), host: '127.0.0.1' })
  t.teardown(() => void client.destroy())
  let tail = ''
  client.on('data', (bytes) => (tail = (tail + bytes.toString('latin1')).slice(-1000)))
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const body = JSON.stringify({ ...hi, stream: true })
  client.write(
    `POST /v1/chat HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  )
  while (tail === '') await nextTurn()
  client.pause()
  const [call] = calls
  if (!call) throw new Error('the backend was not asked')
  await untilSame(() => call.socket.bytesWritten)
  t.ok(call.res.writableLength > 0, 'the backend is held back')
  mock.timers.tick(5000)
  await untilSame(() => call.socket.bytesWritten)
  t.equal(call.res.destroyed, false)
  client.resume()
  while (!tail.includes('the last')) await nextTurn()
  await untilSame(() => call.socket.bytesWritten)
  mock.timers.tick(5000)
  await untilSame(() => tail)
  t.match(tail, /"code":"upstream_timeout"/)
  t.equal(call.res.destroyed, true)
})

/** A client that takes the beginning of a stream and then nothing. The stream's first pieces, from the backend, are `pieces`. */
async function stalled(t: Test, options: ChatPathOptions, pieces: readonly string[]) {
  const path = await chatPath(t, options)
  const calls: Call[] = []
  path.backend.once((call) => {
    calls.push(call)
    call.res.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const piece of pieces) call.res.write(piece)
  })
  const client = connect({ port: Number(new URL(path.gate.url).port), host: '127.0.0.1' })
  t.teardown(() => void client.destroy())
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const body = JSON.stringify({ ...hi, stream: true })
  client.write(
    `POST /v1/chat HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${path.key}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  )
  await once(client, 'readable')
  const [call] = calls
  if (!call) throw new Error('the backend was not asked')
  await untilSame(() => call.socket.bytesWritten)
  /** When so much time has passed, the client takes the rest: the stream's text, and what is spent. */
  const after = async (ms: number) => {
    await untilSame(() => call.socket.bytesWritten)
    mock.timers.tick(ms)
    await untilSame(() => call.res.destroyed)
    mock.timers.reset()
    let text = ''
    client.on('data', (data) => (text += data))
    await until(() => /\[DONE\]|"error"/.test(text.slice(-500)))
    return { text, spent: await path.spent() }
  }
  return { call, after }
}

const padded = (event: string, bytes: number) =>
  event.replace('{"choices"', `{"id":"${'x'.repeat(bytes)}","choices"`)

t.test('a client that stalls at the finish does not keep the usage unread', async (t) => {
  const pieces = [word, padded(finish, 7 * 1024 * 1024)]
  const { call, after } = await stalled(t, {}, pieces)
  call.res.end(reported)
  t.match(await after(2000), { spent: 3007, text: /\[DONE\]/ })
})

t.test(
  'when the time is over, a client that stalled gets all that had come, and pays for it',
  async (t) => {
    const model = 'timeouts: { total: 60s }'
    const { call, after } = await stalled(t, { model }, [padded(word, 7 * 1024 * 1024)])
    call.res.end(finish + reported)
    const { text, spent } = await after(60_000)
    t.equal(spent, 3007)
    t.match(text, /"finish_reason":"stop".*\[DONE\]/s)
  },
)

t.test('a usage that came while the gateway stood still has come in time', async (t) => {
  const { backend, stream, spent } = await chatPath(t)
  const calls: Call[] = []
  backend.on((call) => {
    calls.push(call)
    call.res.writeHead(200, { 'content-type': 'text/event-stream' })
    call.res.write(word + finish)
  })
  const reading = (await stream()).body?.getReader()
  await reading?.read()
  calls[0]?.res.end(reported)
  standStill(2100)
  while (!(await reading?.read())?.done);
  t.equal(await spent(), 3007)
})

t.test('while its tokens are counted at the end, a stream has heartbeats', async (t) => {
  const counted = Promise.withResolvers<void>()
  const slow: Plugin = {
    name: 'slow',
    schema: z.strictObject({}),
    setup: () => ({
      begin: ({ route }) => (route.metered ? { done: () => counted.promise } : undefined),
    }),
  }
  const yaml = 'limits: { heartbeat: 20ms }'
  const { backend, stream } = await chatPath(t, { yaml, ownPlugins: [slow] })
  backend.on(sse([word + finish + reported]))
  const answer = await stream()
  let text = ''
  const reading = (async () => {
    for await (const bytes of answer.body ?? []) text += Buffer.from(bytes).toString('latin1')
  })()
  await until(() => text.endsWith(':\n:\n'))
  t.notMatch(text, 'DONE')
  counted.resolve()
  await reading
  t.match(text, /data: \[DONE\]\n\n$/)
})

/** Resolves when the value has not changed for many turns of the event loop, on which the whole test runs. */
async function untilSame(look: () => unknown): Promise<void> {
  let seen = look()
  for (let turns = 0; turns < 500; turns++) {
    await nextTurn()
    if (look() !== seen) turns = 0
    seen = look()
  }
}
