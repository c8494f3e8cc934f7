// One generation and its money: headers both ways, whole answers, clients that leave, balances that are used up.

import t from 'tap'
import { chat, endless } from '../fixtures/backend-model.ts'
import {
  behind,
  bytes,
  failing,
  json,
  raw,
  replay,
  reset,
  silent,
  sse,
} from '../fixtures/backend-scripts.ts'
import { chatPath, hi } from '../fixtures/chat-path.ts'
import { codeOf } from '../fixtures/gateway.ts'
import { bodyOf } from '../fixtures/sse-events.ts'
import type { Exchange } from '../../src/exchange.ts'
import { Gate } from '../fixtures/gate.ts'
import { transactionsOf } from '../fixtures/money.ts'
import { spy } from '../fixtures/spy.ts'
import { soon, until } from '../fixtures/until.ts'
import type { Script } from '../fixtures/backend.ts'

t.test('headers pass by an allow-list, both ways', async (t) => {
  const { backend, gate, key } = await chatPath(t, {
    target: 'key: sk-own, headers: { X-Own: mine }',
    model: 'forward_headers: [x-wanted]',
  })
  backend.on(
    json({ choices: [] }, 200, {
      'set-cookie': 'a=b',
      server: 'x',
      'x-any': '1',
      'openai-version': '7',
      'content-language': 'de',
    }),
  )
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const answer = await fetch(`${gate.url}/v1/chat`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      cookie: 'a=b',
      'x-forwarded-for': '1.2.3.4',
      'x-conversation-id': 'c',
      'x-wanted': 'yes',
      traceparent,
    },
    body: JSON.stringify(hi),
  })
  t.equal(answer.status, 200)
  const got = backend.requests[0]?.headers ?? {}
  t.match(got, { authorization: 'Bearer sk-own', 'x-own': 'mine', 'x-wanted': 'yes', traceparent })
  for (const name of ['cookie', 'origin', 'x-forwarded-for', 'x-conversation-id', 'user-agent']) {
    t.notOk(name in got, name)
  }
  for (const name of ['set-cookie', 'server', 'x-any']) t.equal(answer.headers.get(name), null)
  t.equal(answer.headers.get('openai-version'), '7')
  t.equal(answer.headers.get('content-language'), 'de')
})

t.test('whole answers of four servers arrive byte for byte', async (t) => {
  const { backend, ask } = await chatPath(t)
  for (const server of ['llama', 'tf', 'llamapy', 'ollama']) {
    const capture = `${server}-nonstream.http`
    backend.once(replay(capture))
    const got = Buffer.from(await (await ask()).arrayBuffer())
    t.ok(got.equals(bodyOf(capture)), capture)
  }
})

t.test('a whole answer that is cut off, or no JSON, is 502 and costs nothing', async (t) => {
  const { backend, ask, spent } = await chatPath(t)
  backend.once(bytes('<html>'))
  t.equal(await codeOf(await ask()), 'upstream_error')
  backend.once(({ res }) => {
    res.writeHead(200, { 'content-length': '100' })
    res.write('{"choices":', () => res.destroy())
  })
  t.equal(await codeOf(await ask()), 'upstream_incomplete')
  t.equal(await spent(), 0)
})

t.test('where a backend reports one of several choices, all of them are paid', async (t) => {
  const { backend, ask, spent } = await chatPath(t)
  const content = ' a'.repeat(30)
  const choices = [0, 1, 2, 3].map((index) => ({
    index,
    message: { role: 'assistant', content },
    finish_reason: 'length',
  }))
  const usage = { prompt_tokens: 1, completion_tokens: 30 }
  backend.once(json({ choices, usage }))
  t.equal((await ask({ ...hi, n: 4, max_tokens: 30 })).status, 200)
  t.equal(await spent(), 1 + 4 * 30)
})

t.test('a whole answer that is an error has the status it names, and costs nothing', async (t) => {
  const { backend, ask, spent } = await chatPath(t, { target: 'key: sk-secret-1' })
  const errors = [
    [{ message: 'sk-secret-1 is too long', code: 400 }, 400],
    [{ message: 'slow', code: 429 }, 429],
    [{ message: 'oom', code: 'oom' }, 502],
  ] as const
  for (const [error, status] of errors) {
    backend.once(json({ error }))
    const answer = await ask()
    t.equal(answer.status, status)
    if (status === 400)
      t.same(await answer.json(), { error: { ...error, message: '*** is too long' } })
    else await answer.text()
  }
  t.equal(await spent(), 0)
})

t.test('a client that leaves stops the backend and pays the prompt at least', async (t) => {
  const { backend, leaving, spent } = await chatPath(t, { model: 'on_leave: abort' })
  let before = 0
  for (const [i, stream] of [false, true].entries()) {
    backend.once(silent)
    const { answer, leave } = leaving({ ...hi, stream })
    answer.catch(() => {})
    const request = await backend.request(i)
    leave()
    await soon(request.closed)
    const cost = await spent()
    t.ok(cost > before, `${cost - before} for the prompt`)
    before = cost
  }
})

t.test('a client that leaves in the middle pays what was generated', async (t) => {
  const { backend, leaving, spent } = await chatPath(t)
  backend.on(endless({ gapMs: 1 }))
  const { answer, leave } = leaving({ ...hi, stream: true })
  const reader = (await answer).body?.getReader()
  while (backend.served.completion < 40) await reader?.read()
  leave()
  t.ok(await backend.requests[0]?.closed)
  const cost = await spent()
  t.ok(cost >= 40 && cost < 1000, `${cost}`)
})

t.test('a balance limits the output; below the minimum it is 402', async (t) => {
  const { backend, ask, gate } = await chatPath(t, { tokens: 90 })
  const answer = await ask({ ...hi, max_tokens: 1000 })
  t.equal(answer.status, 200)
  const sent = JSON.parse(backend.requests[0]?.body.toString() ?? '') as { max_tokens: number }
  t.ok(sent.max_tokens >= 16 && sent.max_tokens < 90, `${sent.max_tokens}`)
  const { key } = await gate.account(20)
  const refused = await gate.call('/v1/chat', key, hi)
  t.equal(refused.status, 402)
  t.equal(refused.headers.get('x-should-retry'), 'false')
  t.equal(await codeOf(refused), 'insufficient_balance')
  t.equal(backend.requests.length, 1)
})

t.test('an answer that uses up its money ends with length', async (t) => {
  const { backend, ask, balance } = await chatPath(t, { tokens: 90 })
  backend.on(chat({ chunks: 1000 }))
  t.match(await (await ask({ ...hi, stream: true })).text(), /"finish_reason":"length"/)
  const { balance: left, reserved } = await balance()
  t.ok(left >= 0 && reserved === 0, `${left}`)
})

/** The exchanges of /v1, in the order in which they came. */
function watched() {
  const seen: Exchange[] = []
  const plugin = spy((x) => {
    if (x.route.metered) seen.push(x)
  })
  return { seen, ownPlugins: [plugin] }
}

t.test('a stream whose hold is lost or used up ends as at its length', async (t) => {
  const { seen, ownPlugins } = watched()
  const { backend, gate, id, key, stream } = await chatPath(t, { ownPlugins })
  backend.on(endless({ gapMs: 1 }))
  for (const [i, reason] of (['lost', 'insufficient_balance'] as const).entries()) {
    const answer = await stream({ ...hi, max_tokens: 100_000 })
    seen[i]?.stop?.(reason)
    t.match(await answer.text(), /"finish_reason":"length".*\n\ndata: \[DONE\]\n\n$/, reason)
  }
  const [, first] = (await transactionsOf(gate, { id, key })).toReversed()
  t.match(first, { type: 'charge', cut: true })
})

t.test('stopped by the ledger before its first content, a request is told why', async (t) => {
  const { seen, ownPlugins } = watched()
  const { backend, stream } = await chatPath(t, { ownPlugins })
  backend.on(silent)
  const codes = { lost: 'ledger_unavailable', account_suspended: 'account_suspended' } as const
  for (const [i, reason] of (['lost', 'account_suspended'] as const).entries()) {
    const asked = stream()
    await backend.request(i)
    seen[i]?.stop?.(reason)
    t.equal(await codeOf(await asked), codes[reason])
  }
})

t.test('stopped by the ledger before its generation begins, no target is asked', async (t) => {
  const slow = new Gate()
  const seen: Exchange[] = []
  const plugin = spy((x) => {
    if (!x.route.metered) return
    seen.push(x)
    return { admit: () => slow.wait() }
  })
  const { backend, gate, id, ask, stream } = await chatPath(t, { ownPlugins: [plugin] })
  const { ledger } = gate.gateway
  const asked = [ask(), stream()]
  await until(() => ledger.holdsOpen === 2)
  const suspended = await gate.admin('PATCH', `accounts/${id}`, { status: 'suspended' })
  t.equal(suspended.status, 200)
  await until(() => seen.every(({ stopped }) => stopped === 'account_suspended'))
  slow.open()
  for (const answer of asked) t.equal(await codeOf(await answer), 'account_suspended')
  t.equal(backend.requests.length, 0)
})

t.test('while an answer comes, its question is not kept', async (t) => {
  const { seen, ownPlugins } = watched()
  const { backend, ask } = await chatPath(t, { ownPlugins })
  const gate = new Gate()
  backend.on(chat({ gate, chunks: 3 }))
  gate.next(2)
  const answer = await ask({ ...hi, stream: true })
  t.equal(seen[0]?.body.length, 0)
  gate.open()
  await answer.text()
})

t.test('who leaves an answer that is read without him has left, also when it fails', async (t) => {
  const { seen, ownPlugins } = watched()
  const { backend, gate, leaving, spent } = await chatPath(t, { ownPlugins })
  const failing = new Gate()
  backend.on(async (call) => {
    await failing.wait()
    await json({ error: { message: 'x' } }, 500)(call)
  })
  const { answer, leave } = leaving(hi)
  await backend.request(0)
  leave()
  await answer.catch(() => undefined)
  await until(() => seen[0]?.left.aborted === true)
  failing.open()
  t.ok((await spent()) > 0, 'the prompt is paid for')
  await until(() => gate.log.some((line) => line.includes('"status":499')))
})

/** Without the 200 each of these would be a 504 after two seconds. */
const path = {
  yaml: 'limits: { first_byte: 50ms, heartbeat: 20ms }',
  model: 'timeouts: { first_token: 2s }',
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
