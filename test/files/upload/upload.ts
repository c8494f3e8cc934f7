// An upload from its first header to its end in a store, over real sockets.

import { hash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import OpenAI, { toFile } from 'openai'
import t from 'tap'
import { GatewayError } from '../../../src/errors.ts'
import { ClientLeft } from '../../../src/http/body.ts'
import { boundary, field, filePart, multipart } from '../../fixtures/multipart.ts'
import type { PartSpec } from '../../fixtures/multipart.ts'
import { sessionId, startUploads } from '../../fixtures/multipart-server.ts'
import { rawClient } from '../../fixtures/raw-http.ts'
import { until } from '../../fixtures/until.ts'

const session = field('session_id', sessionId)
const query = `?session_id=${sessionId}`
const head = (length: number) =>
  `POST /${query} HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=${boundary}\r\n` +
  `Content-Length: ${length}\r\n\r\n`

t.test('a file arrives whole, with all fields that were sent with it', async (t) => {
  const uploads = await startUploads(t)
  const bytes = randomBytes(300_000)
  const fields = [session, field('purpose', 'vision'), field('expires_after', '60')]
  const told = await uploads.send([...fields, filePart(bytes, 'C:\\x\\报告.png')])
  t.strictSame(told.received, {
    session: sessionId,
    filename: '报告.png',
    purpose: 'vision',
    expiresAfterS: 60,
    bytes: 300_000,
    sha256: hash('sha256', bytes),
    contentType: 'application/octet-stream',
  })
  t.ok(told.kept?.equals(bytes))
  t.equal(told.bytesTold, 300_000)
  t.match(told.calls, [/^reserve 30\d{4} for 报告.png$/, 'put'], 'in this order')
  t.equal(told.status, 201)
})

t.test('fields may follow the file where the query has the session', async (t) => {
  const uploads = await startUploads(t)
  const after = [
    field('purpose', 'assistants'),
    field('expires_after[anchor]', 'created_at'),
    field('expires_after[seconds]', '3600'),
    field('sha256', hash('sha256', 'x')),
  ]
  const { received } = await uploads.send([filePart('x'), ...after], { query })
  t.match(received, { purpose: 'assistants', expiresAfterS: 3600, contentType: /^text\/plain/ })
})

t.test("forms of fetch and OpenAI's own library are accepted", async (t) => {
  const uploads = await startUploads(t)
  const base = `http://127.0.0.1:${uploads.port}/`
  const form = new FormData()
  form.set('session_id', sessionId)
  form.set('file', new File(['hello'], 'a"ü\n.txt'))
  t.equal((await fetch(base, { method: 'POST', body: form })).status, 201)
  t.equal((await uploads.outcome()).received?.filename, 'a"ü.txt')
  const client = new OpenAI({ apiKey: 'none', baseURL: base, maxRetries: 0 })
  await client.files.create(
    {
      file: await toFile(Buffer.from('hello'), '报告.txt'),
      purpose: 'assistants',
      expires_after: { anchor: 'created_at', seconds: 3600 },
    },
    { query: { session_id: sessionId } },
  )
  t.match((await uploads.outcome()).received, {
    filename: '报告.txt',
    purpose: 'assistants',
    expiresAfterS: 3600,
    bytes: 5,
  })
})

t.test('sizes: 0, 1, the limit, and one more', async (t) => {
  const uploads = await startUploads(t, { maxBytes: 100_000 })
  const bytes = randomBytes(100_001)
  for (const length of [0, 1, 65_536, 99_999, 100_000]) {
    const told = await uploads.send([session, filePart(bytes.subarray(0, length))])
    t.equal(told.received?.bytes, length)
    t.ok(told.kept?.equals(bytes.subarray(0, length)))
  }
  const empty = await uploads.send([session, filePart('')])
  t.match(empty.received, { sha256: hash('sha256', ''), contentType: 'text/plain; charset=utf-8' })
  t.strictSame(empty.calls, ['reserve 0 for a.bin', 'put'])
  const over = await uploads.send([session, filePart(bytes)])
  t.match(over.error, { code: 'file_too_large', message: /100000 bytes/ })
  t.equal(over.lost, over.error, 'the store hears the same')
  t.equal(over.status, 413)
  t.ok(over.bytesTold <= 100_000)
})

t.test('a length that cannot fit is refused before a byte is read', async (t) => {
  const uploads = await startUploads(t, { maxBytes: 1000 })
  const client = await rawClient(t, uploads.port)
  const ask = head(1000 + 64 * 1024 + 1).replace('\r\n\r\n', '\r\nExpect: 100-continue\r\n\r\n')
  client.send(ask)
  const answer = await client.answer()
  t.equal(answer.status, 413)
  t.strictSame((await uploads.outcome()).calls, [])
})

t.test('valid forms with bad content are refused, and leave nothing', async (t) => {
  const uploads = await startUploads(t)
  const file = filePart('content')
  const missing = (param: string, message = /./) => ({ code: 'missing_parameter', param, message })
  const invalid = (param: string, message = /./) => ({ code: 'invalid_parameter', param, message })
  const unknown = (param: string) => ({ code: 'unknown_parameter', param })
  const wrongSum = field('sha256', hash('sha256', 'x'))
  const other = field('session_id', `${sessionId}0`)
  const half = field('expires_after[anchor]', 'created_at')
  const cases: readonly (readonly [string, readonly PartSpec[], object, string?])[] = [
    ['no file', [session], missing('file')],
    ['nothing', [], missing('session_id')],
    ['no session', [file], missing('session_id')],
    ['the session too late', [file, session], missing('session_id', /before the file/)],
    ['another session in the query', [other, file], invalid('session_id'), query],
    ['another session after the file', [file, other], invalid('session_id'), query],
    ['no id', [field('session_id', 'x'), file], { code: 'session_not_found' }],
    ['two files', [session, file, file], invalid('file', /one file/)],
    ['two sessions', [session, session, file], invalid('session_id')],
    ['a file of another name', [session, { ...file, name: 'upload' }], unknown('upload')],
    ['another file after it', [session, file, { ...file, name: 'more' }], unknown('more')],
    ['an unknown field', [session, field('model', 'x'), file], unknown('model')],
    ['an unknown field after it', [session, file, field('model', 'x')], unknown('model')],
    ['the file as text', [session, field('file', 'x')], invalid('file', /filename/)],
    ['the file as text after it', [session, file, field('file', 'x')], invalid('file')],
    ['text as a file', [{ ...session, filename: 'x' }, file], invalid('session_id', /text field/)],
    ['no file chosen', [session, filePart('', '')], missing('file')],
    ['a bad purpose after it', [session, file, field('purpose', '!')], invalid('purpose')],
    ['half an expiry', [session, file, half], missing('expires_after[seconds]')],
    ['a wrong sum before', [session, wrongSum, file], { code: 'checksum_mismatch', status: 422 }],
    [
      'a wrong sum after',
      [session, file, wrongSum],
      { code: 'checksum_mismatch', param: 'sha256' },
    ],
    ['a long field', [session, field('purpose', 'x'.repeat(5000)), file], invalid('purpose')],
  ]
  for (const [name, parts, error, search = ''] of cases) {
    const told = await uploads.send(parts, { query: search })
    t.match(told.error, error, name)
    t.equal(told.status, told.error instanceof GatewayError ? told.error.status : 0)
    t.notOk(told.kept, 'the content never ends')
    t.equal(told.calls.includes('put'), told.lost !== undefined, 'and the store is told')
  }
  const unnamed = await uploads.send([
    session,
    { name: 'file', type: 'application/octet-stream', value: 'x' },
  ])
  t.match(unnamed.received, { filename: 'file', bytes: 1 }, 'bytes without a filename are a file')
})

t.test('a correct checksum is accepted in either case, before or after the file', async (t) => {
  const uploads = await startUploads(t)
  const sum = field('sha256', hash('sha256', 'content').toUpperCase())
  for (const parts of [
    [session, sum, filePart('content')],
    [session, filePart('content'), sum],
  ]) {
    t.equal((await uploads.send(parts)).received?.sha256, hash('sha256', 'content'))
  }
})

t.test('the content decides the type, not the client', async (t) => {
  const uploads = await startUploads(t, { allow: ['image/*'] })
  const lying = { ...filePart('<html><script>', 'x.png'), type: 'image/png' }
  const told = await uploads.send([session, lying])
  t.match(told.error, { code: 'unsupported_media_type', status: 415, message: /text\/plain/ })
  const long = await uploads.send([session, filePart('x'.repeat(500_000))])
  t.equal(long.status, 415)
  t.equal(long.bytesTold, 0, 'known by the first piece')
})

t.test('a refusal by reserve is the error, and nothing is put', async (t) => {
  const parts = [session, filePart(randomBytes(200_000))]
  const unknown = async () => Promise.reject(new GatewayError('session_not_found'))
  const refused = await (await startUploads(t, { reserve: unknown })).send(parts)
  t.match(refused.error, { code: 'session_not_found' })
  t.match(refused.calls, [/^reserve \d+ for a.bin$/])
  t.equal(refused.calls.length, 1)
  const reserve = async () => Promise.reject(new GatewayError('storage_quota_exceeded'))
  const full = await (await startUploads(t, { reserve })).send(parts)
  t.match(full.error, { code: 'storage_quota_exceeded' })
  t.notOk(full.calls.includes('put'))
  t.equal(full.bytesTold, 0)
})

t.test('a store that fails ends the reading at once, with its error', async (t) => {
  const broken = new GatewayError('storage_unavailable')
  const put = async (content: Readable) => {
    await once(content, 'data')
    throw broken
  }
  const uploads = await startUploads(t, { put, maxBytes: 1e9 })
  const client = await rawClient(t, uploads.port)
  client.send(head(9e8), multipart([filePart(randomBytes(100_000))]).subarray(0, 90_000))
  t.equal((await uploads.outcome()).error, broken)
  client.socket.end()
  t.equal((await client.answer()).status, 503)
})

t.test('the rejection waits for the store, and has the first cause', async (t) => {
  const mayFail = Promise.withResolvers<void>()
  let isDestroyed = false
  const put = async (content: Readable) => {
    content.on('error', () => (isDestroyed = true)).resume()
    await mayFail.promise
    throw new Error('what came of it')
  }
  const uploads = await startUploads(t, { put })
  let hasEnded = false
  const sent = uploads.send([session, filePart('x'), field('model', 'x')])
  void sent.finally(() => (hasEnded = true))
  await until(() => isDestroyed)
  t.notOk(hasEnded)
  mayFail.resolve()
  t.match((await sent).error, { code: 'unknown_parameter' })
})

t.test('the content ends only when the whole form has come', async (t) => {
  const uploads = await startUploads(t)
  const body = multipart([filePart('x'.repeat(100)), field('purpose', 'late')])
  const client = await rawClient(t, uploads.port)
  client.send(head(body.length), body.subarray(0, -3))
  await until(() => uploads.requests.length === 1)
  client.socket.destroy()
  const told = await uploads.outcome()
  t.ok(told.error instanceof ClientLeft)
  t.equal(told.lost, told.error)
  t.notOk(told.kept)
})

// A socket that nobody reads does not notice that its client has left.
t.test('a client that leaves while it is held back is noticed afterwards', async (t) => {
  const taken = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  const put = async (content: Readable) => {
    taken.resolve()
    await go.promise
    for await (const chunk of content) void chunk
  }
  const uploads = await startUploads(t, { put, maxBytes: 1e9 })
  const client = await rawClient(t, uploads.port)
  client.send(head(9e8), multipart([filePart(randomBytes(1_000_000))]).subarray(0, -100))
  await taken.promise
  client.socket.destroy()
  go.resolve()
  t.ok((await uploads.outcome()).error instanceof ClientLeft)
})

t.test("an abort ends it with the signal's reason", async (t) => {
  const draining = new GatewayError('server_draining')
  for (const [reason, expected] of [
    [draining, draining],
    [undefined, ClientLeft],
  ] as const) {
    const abort = new AbortController()
    let lost: unknown
    const put = async (content: Readable) => {
      const failed = new Promise((_, reject) => content.on('error', reject))
      abort.abort(reason)
      await failed.catch((cause: unknown) => {
        lost = cause
        throw cause
      })
    }
    const uploads = await startUploads(t, { signal: abort.signal, put })
    const { error } = await uploads.send([session, filePart('x')])
    if (expected === draining) t.equal(error, draining)
    else t.ok(error instanceof ClientLeft)
    t.equal(lost, error)
    const late = await uploads.send([session, filePart('x')])
    t.strictSame(late.calls, [], 'nothing is begun after it')
  }
})

t.test('200 MB into a slow store do not fill the memory', async (t) => {
  const pieces = 3200
  const piece = randomBytes(65_536)
  let buffered = 0
  const put = async (content: Readable) => {
    let reads = 0
    for await (const chunk of content) {
      buffered = Math.max(buffered, content.readableLength + (chunk as Buffer).length)
      // Pauses now and then, so that only the socket holds the client back.
      if (reads++ % 100 === 0) await until(() => true).then(() => new Promise(setImmediate))
    }
  }
  const uploads = await startUploads(t, { put, maxBytes: 1e9 })
  const client = await rawClient(t, uploads.port)
  const whole = multipart([filePart('MIDDLE')])
  const at = whole.indexOf('MIDDLE')
  client.send(head(whole.length - 6 + pieces * piece.length), whole.subarray(0, at))
  const before = process.memoryUsage()
  let peak = 0
  for (let count = 0; count < pieces; count++) {
    if (!client.socket.write(piece)) await once(client.socket, 'drain')
    const { arrayBuffers, external } = process.memoryUsage()
    peak = Math.max(peak, arrayBuffers + external - before.arrayBuffers - before.external)
  }
  client.send(whole.subarray(at + 6))
  const { received } = await uploads.outcome()
  t.equal(received?.bytes, pieces * piece.length)
  t.ok(buffered <= 4 * 65_536, `${buffered} bytes in the content`)
  t.comment(`buffers grew by ${Math.round(peak / 1e6)} MB at most`)
})

t.test('a store that is stuck stops the socket', async (t) => {
  const go = Promise.withResolvers<void>()
  const put = async (content: Readable) => {
    await go.promise
    for await (const chunk of content) void chunk
  }
  const uploads = await startUploads(t, { put, maxBytes: 1e9 })
  const client = await rawClient(t, uploads.port)
  const whole = multipart([filePart(Buffer.alloc(50_000_000))])
  client.send(head(whole.length), whole)
  await until(() => uploads.requests[0]?.isPaused() === true)
  let last = -1
  await until(() => {
    const now = client.socket.bytesWritten - client.socket.writableLength
    const isStill = now === last
    last = now
    return isStill
  })
  const read = uploads.requests[0]?.socket.bytesRead ?? 0
  t.ok(read < 1_000_000, `${read} bytes were read`)
  go.resolve()
  t.equal((await uploads.outcome()).received?.bytes, 50_000_000)
})

t.test('the connection can be used for the next upload', async (t) => {
  const uploads = await startUploads(t)
  const client = await rawClient(t, uploads.port)
  const body = multipart([filePart('x')])
  for (let count = 0; count < 30; count++) {
    client.send(head(body.length), body)
    t.equal((await client.answer()).status, 201)
  }
  const [first] = uploads.requests
  t.equal(
    first?.socket.listenerCount('close'),
    uploads.requests.at(-1)?.socket.listenerCount('close'),
  )
  t.ok((first?.socket.listenerCount('close') ?? 99) < 10, 'and leaves no listeners on it')
})
