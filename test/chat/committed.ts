// A backend that lets a stream wait before its first content: the client gets 200 and heartbeats in time, and later
// errors come in the stream, at the same price.

import t from 'tap'
import type { Script } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { failing, raw, reset, silent, sse } from '../fixtures/backend-scripts.ts'
import { chatPath, hi } from '../fixtures/chat-path.ts'
import { Gate } from '../fixtures/gate.ts'

/** Without the 200 each of these would be a 504 after two seconds. */
const path = {
  yaml: 'limits: { first_byte: 50ms, heartbeat: 20ms }',
  model: 'timeouts: { first_token: 2s }',
}

/** Answers only when the gate is open. */
function behind(gate: Gate, script: Script): Script {
  return async (call) => {
    await gate.wait()
    await script(call)
  }
}

/** Reads until a heartbeat comes; returns a function that reads the rest. */
async function beaten(answer: Response): Promise<() => Promise<string>> {
  const reader = answer.body?.getReader()
  let text = ''
  const read = async () => {
    const { value, done } = (await reader?.read()) ?? { value: undefined, done: true }
    if (value) text += Buffer.from(value).toString('latin1')
    return !done
  }
  while (!text.includes(':\n') && (await read()));
  return async () => {
    while (await read());
    return text
  }
}

t.test('while a backend queues, a stream is 200 with heartbeats', async (t) => {
  const { backend, stream, spent } = await chatPath(t, path)
  const gate = new Gate()
  backend.on(behind(gate, chat({ chunks: 2 })))
  const answer = await stream()
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('content-type'), 'text/event-stream; charset=utf-8')
  const rest = await beaten(answer)
  gate.open()
  const text = await rest()
  t.match(text, /^(:\n)+data: .*w0 .*data: \[DONE\]\n\n$/s)
  t.equal(await spent(), backend.served.prompt + backend.served.completion)
  t.equal(backend.requests.length, 1)
})

const theirs = { error: { message: 'no', code: 'theirs' } }
const several =
  'HTTP/1.1 400 No\r\nContent-Length: 41\r\n\r\n{\r\n\r\n\t"error": {\r "code":\n\n "theirs"\r\n\r}}'
const word = 'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'

const failures: Readonly<Record<string, readonly [Script, string]>> = {
  'its own 400': [failing(400, { body: theirs }), 'theirs'],
  'a 400 of several lines': [raw(several), 'theirs'],
  '401': [failing(401), 'upstream_auth_error'],
  '429': [failing(429), 'upstream_rate_limited'],
  '503': [failing(503), 'upstream_unavailable'],
  'a reset': [reset, 'upstream_error'],
  'an error event': [sse([`data: ${JSON.stringify(theirs)}\n\n`]), 'theirs'],
  'a cut': [sse([], { end: 'cut' }), 'upstream_incomplete'],
}

for (const [name, [script, code]] of Object.entries(failures)) {
  t.test(`after 200, ${name} is the stream's last event, and costs nothing`, async (t) => {
    const { backend, stream, spent } = await chatPath(t, path)
    const gate = new Gate()
    backend.on(behind(gate, script))
    const answer = await stream()
    t.equal(answer.status, 200)
    const rest = await beaten(answer)
    gate.open()
    const events = (await rest()).replaceAll(/^:\n/gm, '').split('\n\n').filter(Boolean)
    t.equal(events.length, 1)
    const data = events[0]?.replaceAll(/^data: ?/gm, '') ?? ''
    t.match(JSON.parse(data), { error: { code } })
    t.equal(await spent(), 0)
    t.equal(backend.requests.length, 1, 'no second target is asked once 200 is out')
  })
}

t.test('an error body that comes slowly does not keep the client waiting either', async (t) => {
  const { backend, stream } = await chatPath(t, path)
  const gate = new Gate()
  backend.on(async ({ res }) => {
    res.writeHead(500, { 'content-type': 'application/json' })
    res.flushHeaders()
    await gate.wait()
    res.end('{}')
  })
  const answer = await stream()
  t.equal(answer.status, 200)
  const rest = await beaten(answer)
  gate.open()
  t.match(await rest(), /"code":"upstream_error"/)
})

t.test('no first token after 200 is a time-out in the stream', async (t) => {
  const { backend, stream, spent } = await chatPath(t, {
    ...path,
    model: 'timeouts: { first_token: 200ms }',
  })
  backend.on(silent)
  const answer = await stream()
  t.equal(answer.status, 200)
  t.match(await answer.text(), /^(:\n)*data: .*"code":"upstream_timeout".*\n\n$/)
  t.equal(await spent(), 0)
})

t.test('a client that leaves after 200 stops the backend and pays the prompt', async (t) => {
  const { backend, leaving, spent } = await chatPath(t, path)
  backend.on(silent)
  const { answer, leave } = leaving({ ...hi, stream: true })
  t.equal((await answer).status, 200)
  await beaten(await answer)
  leave()
  await backend.requests[0]?.closed
  t.ok((await spent()) > 0)
})

t.test('a drain after 200 ends the stream, and it costs nothing', async (t) => {
  const { backend, gate, stream } = await chatPath(t, {
    yaml: `${path.yaml}\ndrain: 50ms`,
    model: 'timeouts: { first_token: 60s }',
  })
  backend.on(silent)
  const answer = await stream()
  t.equal(answer.status, 200)
  await gate.close()
  t.match(await answer.text(), /"code":"server_draining".*\n\n$/)
  const line = gate.log.find((one) => one.includes('server_draining'))
  t.match(JSON.parse(line ?? '{}'), { status: 200, cost: 0 })
})

t.test('an error that comes in time is still a status', async (t) => {
  const { backend, stream } = await chatPath(t)
  backend.once(sse([word], { end: 'cut' }))
  t.match(await (await stream()).text(), /upstream_incomplete/)
  backend.once(failing(429))
  t.equal((await stream()).status, 429)
})
