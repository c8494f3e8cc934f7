import t from 'tap'
import type { Test } from 'tap'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { GatewayError } from '../../src/errors.ts'
import type { ErrorCode, ErrorDetails } from '../../src/errors.ts'
import { hasLeft, openStream, rawRefusal, sendAnswer, sendError } from '../../src/http/reply.ts'
import type { Answer } from '../../src/exchange.ts'
import { startListener } from '../fixtures/http-listener.ts'
import { rawClient } from '../fixtures/raw-http.ts'

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const limits = { readerStallMs: 30_000 }
const x = { id: 'req_test', replyHeaders: { 'X-Reply': 'a\r\nb' } }

async function serve(t: Test, onRequest: (req: IncomingMessage, res: ServerResponse) => unknown) {
  const listener = await startListener(t, async (req, res) => void (await onRequest(req, res)))
  return () => rawClient(t, listener.port)
}

async function answering(t: Test, answer: Answer) {
  const client = await serve(t, (_req, res) => sendAnswer(res, x, { answer, limits }))
  return client()
}

async function refusing(t: Test, code: ErrorCode, details?: ErrorDetails, headers = '') {
  const client = await serve(t, (_req, res) => sendError(res, x, new GatewayError(code, details)))
  const one = await client()
  one.send(`GET / HTTP/1.1\r\nHost: a\r\n${headers}\r\n`)
  return one.answer()
}

t.test('a JSON answer has an id, a length and no-store; the connection is kept', async (t) => {
  const one = await answering(t, { status: 201, body: '{"a":"é"}', headers: { Location: '/b' } })
  for (let i = 0; i < 2; i++) {
    const { status, headers, body } = await one.ask(get)
    t.equal(status, 201)
    t.equal(body.toString(), '{"a":"é"}')
    t.match(headers, {
      'x-request-id': 'req_test',
      'x-reply': 'a??b',
      'content-type': 'application/json',
      'cache-control': 'no-store',
      'content-length': '10',
      location: '/b',
      connection: 'keep-alive',
    })
  }
})

t.test("bytes are sent as they are, with their type; a backend's JSON with no-store", async (t) => {
  for (const size of [1, 1000, 200_000]) {
    const body = Buffer.alloc(size, '{"é":"\u{1f600}"}')
    const html = await answering(t, {
      status: 200,
      body,
      headers: { 'content-type': 'text/html' },
    })
    const answer = await html.ask(get)
    t.ok(answer.body.equals(body), `${size} bytes`)
    t.equal(answer.headers['cache-control'], undefined)
  }
  const json = await answering(t, {
    status: 200,
    body: Buffer.from('{}'),
    headers: { 'content-type': 'application/json; charset=utf-8' },
  })
  t.equal((await json.ask(get)).headers['cache-control'], 'no-store')
})

t.test('a latin1 text is sent char by char as bytes, whatever its size', async (t) => {
  for (const size of [1, 1000, 200_000]) {
    const bytes = Buffer.alloc(size, '{"é":"\u{1f600}"}')
    const body = bytes.toString('latin1')
    const headers = { 'content-type': 'text/plain' }
    const one = await answering(t, { status: 200, body, encoding: 'latin1', headers })
    const answer = await one.ask(get)
    t.ok(answer.body.equals(bytes), `${size} bytes`)
    t.equal(answer.headers['content-length'], String(size))
  }
})

t.test('a header value has the same bytes beside a body of any kind', async (t) => {
  const headers = { 'X-Place': 'Zürich', 'Content-Type': 'text/plain' }
  for (const body of ['é\u{1f600}', '漢'.repeat(40_000), Buffer.from('é'), '']) {
    const one = await answering(t, { status: 200, body, headers })
    const answer = await one.ask(get)
    t.equal(answer.headers['x-place'], 'Zürich')
    t.ok(answer.body.equals(Buffer.from(body)))
  }
})

t.test('204 and 304 have neither body nor length, HEAD has the length of GET', async (t) => {
  for (const status of [204, 304]) {
    const one = await answering(t, { status, body: '' })
    const { headers } = await one.ask(get, get)
    t.equal(headers['content-length'], undefined)
    t.equal(headers['content-type'], undefined)
    t.equal((await one.answer()).status, status)
  }
  const one = await answering(t, { status: 200, body: '{"a":1}' })
  one.send(get.replace('GET', 'HEAD'), get)
  t.equal((await one.answer('HEAD')).headers['content-length'], '7')
  t.equal((await one.answer()).body.toString(), '{"a":1}')
})

t.test('an error is JSON of one shape and says whether to try again', async (t) => {
  const busy = await refusing(t, 'session_busy', { param: 'x' })
  t.equal(busy.status, 409)
  t.same(busy.json, {
    error: {
      message: 'The session is already generating a message. Wait for its end, or cancel it.',
      type: 'conflict_error',
      param: 'x',
      code: 'session_busy',
    },
    request_id: 'req_test',
  })
  t.match(busy.headers, {
    'x-request-id': 'req_test',
    'x-should-retry': 'false',
    'cache-control': 'no-store',
    'x-reply': 'a??b',
  })
  t.equal((await refusing(t, 'insufficient_balance')).headers['x-should-retry'], 'false')
  for (const code of [
    'idempotency_in_progress',
    'rate_limit_exceeded',
    'internal_error',
  ] as const) {
    t.equal((await refusing(t, code)).headers['x-should-retry'], undefined, code)
  }
  const unsure = await refusing(t, 'invalid_json')
  t.equal(unsure.headers['x-should-retry'], undefined, 'nobody retries 400')
})

t.test('a wait is given in whole seconds, rounded up, and in milliseconds', async (t) => {
  const limited = await refusing(t, 'rate_limit_exceeded', { retryAfterMs: 1200.5 })
  t.equal(limited.headers['retry-after'], '2')
  t.equal(limited.headers['retry-after-ms'], '1201')
  t.equal((await refusing(t, 'rate_limit_exceeded')).headers['retry-after'], undefined)
  t.equal((await refusing(t, 'upstream_unavailable')).headers['retry-after'], '1')
})

t.test('a refusal says how near its caller is to the limits', async (t) => {
  const limits = { requests: { limit: 3, remaining: 0, resetMs: 1000 } }
  const { headers } = await refusing(t, 'insufficient_balance', { limits })
  t.equal(headers['x-ratelimit-limit-requests'], '3')
  t.equal(headers['x-ratelimit-remaining-requests'], '0')
  t.equal(headers['x-ratelimit-reset-requests'], '1s')
  t.equal(headers['x-ratelimit-limit-tokens'], undefined)
})

t.test('401 asks for a Bearer key, and says when the one that was sent is bad', async (t) => {
  const missing = await refusing(t, 'missing_api_key')
  t.equal(missing.headers['www-authenticate'], 'Bearer realm="tollgate"')
  const invalid = await refusing(t, 'invalid_api_key', {}, 'Authorization: Bearer x\r\n')
  t.equal(invalid.headers['www-authenticate'], 'Bearer realm="tollgate", error="invalid_token"')
})

t.test("an error's own headers are sent with it", async (t) => {
  const answer = await refusing(t, 'method_not_allowed', { headers: { Allow: 'GET, HEAD' } })
  t.equal(answer.headers.allow, 'GET, HEAD')
  t.equal(answer.status, 405)
})

t.test('an error after the first byte cuts the answer: it never looks whole', async (t) => {
  const failing = {
    status: 200,
    headers: {},
    async stream(out: { write(bytes: string): boolean }) {
      out.write('data: 1\n\n')
      throw new GatewayError('upstream_error')
    },
  }
  const client = await serve(t, async (_req, res) => {
    await t.rejects(sendAnswer(res, x, { answer: failing, limits }), { code: 'upstream_error' })
    sendError(res, x, new GatewayError('internal_error'))
  })
  const one = await client()
  one.send(get)
  await one.head()
  t.notMatch(await one.ended().catch(() => ''), /\r\n0\r\n|error/)
})

t.test('an error while a stream is open cuts it', async (t) => {
  const client = await serve(t, (_req, res) => {
    openStream(res, x, { status: 200, headers: {}, limits }).write('data: 1\n\n')
    sendError(res, x, new GatewayError('internal_error'))
  })
  const one = await client()
  one.send(get)
  t.notMatch(await one.ended().catch(() => ''), /\r\n0\r\n|error/)
})

t.test('an answer to a long body that nobody read is seen, and closes', async (t) => {
  const one = await answering(t, { status: 200, body: '{}' })
  const answer = await one.ask(
    `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n`,
    'a'.repeat(500_000),
  )
  t.equal(answer.status, 200)
  t.equal(answer.headers.connection, 'close')
  t.equal(await one.ended(), '', 'no reset')
})

t.test('nothing throws when the client has left', async (t) => {
  const { promise: done, resolve } = Promise.withResolvers<boolean>()
  const client = await serve(t, async (_req, res) => {
    await once(res, 'close')
    t.ok(hasLeft(res))
    await sendAnswer(res, x, { answer: { status: 200, body: '{}' }, limits })
    sendError(res, x, new GatewayError('internal_error'))
    resolve(true)
  })
  const one = await client()
  one.send(get)
  one.socket.end()
  t.ok(await done)
})

t.test('a client that does not read a long answer is dropped', async (t) => {
  let dropped = 0
  const stalling = { readerStallMs: 100, onDrop: () => void dropped++ }
  const { promise: closed, resolve: close } = Promise.withResolvers<boolean>()
  const body = Buffer.alloc(30_000_000, 'a')
  const client = await serve(t, async (_req, res) => {
    res.on('close', () => close(hasLeft(res)))
    await sendAnswer(res, x, { answer: { status: 200, body }, limits: stalling })
  })
  const one = await client()
  one.socket.pause()
  one.send(get)
  t.equal(await closed, true)
  t.equal(dropped, 1)
})

t.test('neither does one stay that does not read a refusal', async (t) => {
  let dropped = 0
  const stalling = { readerStallMs: 100, onDrop: () => void dropped++ }
  const { promise: closed, resolve: close } = Promise.withResolvers<boolean>()
  const long = { id: 'req_test', replyHeaders: { 'X-Long': 'a'.repeat(30_000_000) } }
  const client = await serve(t, async (_req, res) => {
    res.on('close', () => close(hasLeft(res)))
    sendError(res, long, new GatewayError('invalid_api_key'), stalling)
  })
  const one = await client()
  one.socket.pause()
  one.send(get)
  t.equal(await closed, true)
  t.equal(dropped, 1)
})

t.test('a refusal without a ServerResponse has the same form', async (t) => {
  const text = rawRefusal(new GatewayError('server_draining'), 'req_1')
  const [head = '', body = ''] = text.split('\r\n\r\n')
  t.match(head, /^HTTP\/1\.1 503 Service Unavailable\r\nX-Request-Id: req_1\r\n/)
  t.match(head, /\r\nRetry-After: 1\r\n/)
  t.match(head, /\r\nConnection: close$/)
  t.match(JSON.parse(body), { error: { code: 'server_draining' }, request_id: 'req_1' })
  t.match(head, `Content-Length: ${Buffer.byteLength(body)}`)
})
