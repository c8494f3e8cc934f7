// What a server can't see of a client: which settings it refuses, and how it uses a fetch that the caller gives.

import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { IncompleteStreamError, TimeoutError, Tollgate, TollgateError } from '../src/tollgate.ts'

type Fetch = (url: string, init: RequestInit) => Promise<Response>

const apiKey = 'tg_live_secret'
const baseURL = 'http://gate.test/v1'
const events = { 'content-type': 'text/event-stream', 'x-message-id': 'm' }

function gateOf(fetch: Fetch, more = {}): Tollgate {
  return new Tollgate({ apiKey, baseURL, fetch, ...more })
}

/** A fetch whose answer says something, then nothing, and that ignores signals. */
function silent(said: string): Fetch {
  return async () => {
    const start = (controller: ReadableStreamDefaultController) =>
      controller.enqueue(new TextEncoder().encode(said))
    return new Response(new ReadableStream({ start }), { headers: events })
  }
}

test('addresses that can’t be, and keys that no header can carry, are refused without being told', () => {
  const bad = [
    '',
    'gate.test',
    'ftp://gate.test',
    'http://u:secret@gate.test',
    'http://gate.test?secret',
  ]
  for (const url of bad) {
    const made = () => new Tollgate({ apiKey, baseURL: url })
    assert.throws(
      made,
      (error) => error instanceof TollgateError && !inspect(error).includes('secret'),
    )
  }
  for (const key of ['', ' ', 'secret\nX: y', 'sécret']) {
    const made = () => new Tollgate({ apiKey: key, baseURL })
    assert.throws(
      made,
      (error) => error instanceof TollgateError && !inspect(error).includes('cret'),
    )
  }
})

test('a key that a server repeats is not repeated', async () => {
  const error = { message: `The key ${apiKey} is wrong.`, code: 'invalid_api_key' }
  const gate = gateOf(async () => Response.json({ error }, { status: 401 }))
  await assert.rejects(gate.billing.balance(), (thrown) => !inspect(thrown).includes(apiKey))
})

test('headers of the caller’s are sent, and not shown', async () => {
  const headers: Headers[] = []
  const fetch: Fetch = async (_url, init) => {
    headers.push(new Headers(init.headers))
    return Response.json({})
  }
  const gate = gateOf(fetch, { headers: { 'X-Secret': 'hidden' } })
  await gate.billing.balance({ headers: { 'X-Client-Request-Id': 'a-1' } })
  assert.equal(headers[0]?.get('x-secret'), 'hidden')
  assert.equal(headers[0]?.get('x-client-request-id'), 'a-1')
  assert.ok(!inspect(gate, { showHidden: true, depth: 9 }).includes('hidden'))
})

test('a reader whose fetch knows no signals is freed by the idle time-out', async () => {
  const gate = gateOf(silent('{"object":'), { idleTimeout: 50, maxRetries: 0 })
  await assert.rejects(gate.billing.balance(), TimeoutError)
})

test('… and by close', async () => {
  const gate = gateOf(silent('data: {"choices":[]}\n\n'))
  const stream = await gate.messages.create('s', { content: 'Hi' })
  let count = 0
  for await (const _chunk of stream) {
    count++
    setTimeout(() => stream.close(), 10)
  }
  assert.equal(count, 1)
})

test('… and by the signal, with its reason, of which nothing is left on it', async () => {
  const gate = gateOf(silent('data: {"choices":[]}\n\n'))
  const left = new AbortController()
  const stream = await gate.messages.create('s', { content: 'Hi' }, { signal: left.signal })
  const reason = new Error('enough')
  const read = async () => {
    for await (const _chunk of stream) setTimeout(() => left.abort(reason), 10)
  }
  await assert.rejects(read(), reason)
  assert.equal(getEventListeners(left.signal, 'abort').length, 0)
})

test('a signal outlives a thousand calls without a listener left', async () => {
  const { signal } = new AbortController()
  const gate = gateOf(async () => Response.json({}))
  for (let i = 0; i < 1000; i++) await gate.billing.balance({ signal })
  assert.equal(getEventListeners(signal, 'abort').length, 0)
})

test('a wait before an attempt ends with the signal', async () => {
  const headers = { 'retry-after': '30' }
  const gate = gateOf(async () => new Response('{}', { status: 503, headers }))
  const signal = AbortSignal.timeout(20)
  await assert.rejects(gate.billing.balance({ signal }), { name: 'TimeoutError', code: 23 })
})

test('await using closes a stream', async () => {
  const gate = gateOf(silent('data: {"choices":[]}\n\n'))
  const stream = await gate.messages.create('s', { content: 'Hi' })
  await stream[Symbol.asyncDispose]()
  for await (const _chunk of stream) assert.fail('it was closed')
})

test('where a redirect is not shown, as in browsers, only a file’s content is asked for again', async () => {
  const asked: string[] = []
  const fetch: Fetch = async (_url, { redirect = 'follow' }) => {
    asked.push(redirect)
    if (redirect === 'follow') return new Response('hello', { headers: { etag: '"e"' } })
    return Object.defineProperties(new Response(), {
      type: { value: 'opaqueredirect' },
      status: { value: 0 },
    })
  }
  const gate = gateOf(fetch, { maxRetries: 0 })
  assert.equal(await (await gate.files.content('f')).text(), 'hello')
  assert.deepEqual(asked, ['manual', 'follow'])
  await assert.rejects(gate.billing.balance(), { name: 'APIError' })
})

test('the caller’s headers are not for strangers', async () => {
  const came: Headers[] = []
  const fetch: Fetch = async (_url, { headers }) => {
    came.push(new Headers(headers))
    if (came.length > 1) return new Response('hello')
    return new Response(null, { status: 302, headers: { location: 'http://other.test/' } })
  }
  const gate = gateOf(fetch, { headers: { 'X-Secret': 'hidden' } })
  await (await gate.files.content('f', { headers: { 'X-Other': 'hidden' } })).text()
  assert.equal(came.length, 2)
  const told = ['authorization', 'x-secret', 'x-other'].filter((name) => came[1]?.has(name))
  assert.deepEqual(told, [])
})

test('a file’s content is not read from where no server has anything to say', async () => {
  for (const location of ['file:///etc/passwd', 'data:,hello', 'http://[']) {
    const asked: string[] = []
    const fetch: Fetch = async (url) => {
      asked.push(url)
      return new Response(null, { status: 302, headers: { location } })
    }
    const content = gateOf(fetch, { maxRetries: 0 }).files.content('f')
    await assert.rejects(content, { name: 'APIError', status: 302 })
    assert.equal(asked.length, 1)
  }
})

test('what is undefined is not sent, and no error of types', async () => {
  let sent: unknown
  const gate = gateOf(async (_url, { body }) => {
    sent = body
    return Response.json({})
  })
  const given: { title: string | undefined; limit: number | undefined } = {
    title: undefined,
    limit: undefined,
  }
  await gate.sessions.create({ title: given.title, metadata: undefined })
  assert.equal(sent, '{}')
  const max_tokens = given.limit
  const messages = [{ role: 'user', content: 'Hi', tool_call_id: given.title }]
  await gate.messages.create('s', { messages, max_tokens, stream: false, on_disconnect: undefined })
  assert.equal(sent, '{"messages":[{"role":"user","content":"Hi"}],"stream":false}')
})

test('Infinity is no time-out', async () => {
  const fetch: Fetch = async () => {
    await new Promise((resolve) => setTimeout(resolve, 20))
    return Response.json({})
  }
  await gateOf(fetch, { idleTimeout: Infinity }).billing.balance()
})

test('a header that can’t be sent is refused without its value', async () => {
  const gate = gateOf(async () => Response.json({}))
  const asked = gate.billing.balance({ headers: { 'X-Secret': 'hidden\nX: y' } })
  await assert.rejects(
    asked,
    (error) => error instanceof TollgateError && !inspect(error).includes('hidden'),
  )
})

test('a list that has more and does not say where is no whole list', async () => {
  const page = { object: 'list', data: [{ object: 'billing.usage' }], has_more: true }
  const gate = gateOf(async () => Response.json(page))
  const read = async () => {
    for await (const _row of gate.billing.usage());
  }
  await assert.rejects(read(), TollgateError)
})

test('a stream that never named its message can’t be resumed, and says so', async () => {
  const headers = { 'content-type': 'text/event-stream' }
  const gate = gateOf(async () => new Response('data: {"choices":[]}\n\n', { headers }))
  const stream = await gate.messages.create('s', { content: 'Hi' })
  await assert.rejects(stream.finalMessage(), IncompleteStreamError)
})
