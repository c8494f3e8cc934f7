// Uploads that no library would send, to a whole gateway: odd names, forms that are refused at each stage of an upload,
// false types and lengths, clients that stop. Each is accepted with a clean name or refused with a reason, and a refused
// one leaves nothing. All the ways in which a form is wrong: test/files/upload, and mutated ones test/hostile/uploads.ts.

import t from 'tap'
import type { Test } from 'tap'
import { startFiles } from '../fixtures/files-http.ts'
import { assertNothingLeft, leftIn } from '../fixtures/files-left.ts'
import { boundary, field, filePart, multipart } from '../fixtures/multipart.ts'
import type { PartSpec } from '../fixtures/multipart.ts'
import { rawClient } from '../fixtures/raw-http.ts'
import type { RawAnswer, RawClient } from '../fixtures/raw-http.ts'
import { until } from '../fixtures/until.ts'

const maxBytes = 100_000
const yaml = `
models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }
plugins: { files: { max_bytes: ${maxBytes} } }
plans: { default: { requests_per_minute: 1000000 } }
limits: { upload_idle: 1s, upload_rate: 100B }
`

interface Sent {
  readonly query?: string
  /** Headers of the request; null leaves out one that is always sent. */
  readonly headers?: Readonly<Record<string, string | null>>
}

async function start(t: Test) {
  const files = await startFiles(t, { yaml })
  const { own, gateway } = files
  const port = Number(new URL(files.url).port)
  const session = field('session_id', own.session)
  const head = ({ query = '', headers = {} }: Sent) => {
    const lines = Object.entries({
      Host: 'gateway',
      Authorization: `Bearer ${own.key}`,
      'Content-Type': `multipart/form-data; boundary=${boundary}`,
      Connection: 'close',
      ...headers,
    }).flatMap(([name, value]) => (value === null ? [] : `${name}: ${value}\r\n`))
    return `POST /api/files/upload${query} HTTP/1.1\r\n${lines.join('')}\r\n`
  }
  const open = async (bytes: number, sent: Sent = {}): Promise<RawClient> => {
    const client = await rawClient(t, port)
    client.send(head({ ...sent, headers: { 'Content-Length': String(bytes), ...sent.headers } }))
    return client
  }
  const send = async (
    form: readonly PartSpec[] | Buffer,
    { query = '', headers = {} }: Sent = {},
  ): Promise<RawAnswer> => {
    const body = Buffer.isBuffer(form) ? form : multipart(form)
    const client = await open(body.length, { query, headers })
    client.send(body)
    const answer = await client.answer()
    client.socket.destroy()
    return answer
  }
  const places = { redis: gateway.redis.client, store: gateway.store }
  return { ...files, port, session, open, send, places }
}

const codeIn = ({ status, json }: RawAnswer) => [status, json.error?.code]

/** The parameters of Content-Disposition after `name="file"`, as bytes → the name that is kept. */
const names: readonly (readonly [string | Buffer, string])[] = [
  ['filename="報告書 דוח.txt"', '報告書 דוח.txt'],
  ['filename="👩🏽‍💻.txt"', '👩🏽‍💻.txt'],
  ['filename="a.txt"; filename*=utf-8\'\'%D0%BE.txt', 'о.txt'],
  [Buffer.from('filename="Gr\xfc\xdfe.txt"', 'latin1'), 'Grüße.txt'],
  ['filename="a%22b%0D%0Ac.txt"', 'a"bc.txt'],
  ["filename*=UTF-8''..%2F..%2Fetc%2Fpasswd", 'passwd'],
  ["filename*=UTF-8''a%00b%0D%0ASet-Cookie%3A%20x.txt", 'abSet-Cookie: x.txt'],
  ['filename="photo_\u202egpj.exe"', 'photo_gpj.exe'],
  [`filename="${'n'.repeat(5000)}.txt"`, `${'n'.repeat(251)}.txt`],
]

t.test('names in every form are kept clean, and served in sound headers', async (t) => {
  const { own, session, send, places } = await start(t)
  for (const [parameters, expected] of names) {
    const head = Buffer.from('Content-Disposition: form-data; name="file"; ')
    const disposition = Buffer.concat([head, Buffer.from(parameters)]).toString('latin1')
    const form = multipart([session, { disposition, value: 'x' }])
    // A name that was read as Latin-1 is sent like that, byte for byte.
    const at = form.indexOf('Content-Disposition: form-data; name="file"')
    const end = form.indexOf('\r\n\r\n', at)
    const bytes = Buffer.from(form.subarray(at, end).toString(), 'latin1')
    const answer = await send(Buffer.concat([form.subarray(0, at), bytes, form.subarray(end)]))
    t.equal(answer.status, 201, String(parameters).slice(0, 60))
    t.equal(answer.json.filename, expected)
    const got = await own.call(`GET /${String(answer.json.id)}`)
    const disposed = got.headers.get('content-disposition') ?? ''
    t.match(disposed, /^attachment; filename="[^"\\]*"; filename\*=UTF-8''[\w!#$&+.^`|~%-]*$/)
    t.equal(decodeURIComponent(/''(.*)$/.exec(disposed)?.[1] ?? ''), expected)
    t.equal(got.headers.get('set-cookie'), null)
  }
  await assertNothingLeft(t, places)
})

t.test('what a form must not be is refused by name, and nothing of it is left', async (t) => {
  const { own, stranger, session, send, places } = await start(t)
  const file = filePart('x')
  const over = filePart('x'.repeat(maxBytes + 1))
  const whole = multipart([session, file])
  const headers = (more: Sent['headers']) => ({ headers: more })
  const strange = field('session_id', stranger.session)
  type Refusal = readonly [string, readonly PartSpec[] | Buffer, number, string, Sent?]
  const refusals: readonly Refusal[] = [
    ['no key', whole, 401, 'missing_api_key', headers({ Authorization: null })],
    ['no Content-Type', whole, 415, 'unsupported_media_type', headers({ 'Content-Type': null })],
    ['gzip', whole, 415, 'unsupported_media_type', headers({ 'Content-Encoding': 'gzip' })],
    ['nothing', Buffer.alloc(0), 400, 'malformed_request'],
    ['the session behind the file', [file, session], 400, 'missing_parameter'],
    ['a session of another', [strange, file], 404, 'session_not_found'],
    ['no file', [session], 400, 'missing_parameter'],
    ['two files', [session, file, file], 400, 'invalid_parameter'],
    ['a strange field behind it', [session, file, field('x', '1')], 400, 'unknown_parameter'],
    ['another sum', [session, file, field('sha256', '0'.repeat(64))], 422, 'checksum_mismatch'],
    ['a byte more', [session, over], 413, 'file_too_large'],
    ['and a field behind it', [session, over, field('purpose', 'x')], 413, 'file_too_large'],
    ['a part without its end', whole.subarray(0, -boundary.length - 9), 400, 'malformed_request'],
  ]
  for (const [what, form, status, code, sent] of refusals) {
    t.strictSame(codeIn(await send(form, sent)), [status, code], what)
  }
  t.strictSame(await places.store.list('files/'), [])
  await assertNothingLeft(t, places)
  t.match((await own.make({ content: '' })).bytes, 0, 'zero bytes are a file')
  t.equal((await own.make({ content: 'x'.repeat(maxBytes) })).bytes, maxBytes, 'exactly the limit')
  await assertNothingLeft(t, places)
})

t.test('lies about type and length are found out', async (t) => {
  const { session, send, open, places } = await start(t)
  const page = { ...filePart('<script>1</script>', 'a.png'), type: 'image/png\r\nX-Header: x' }
  t.equal((await send([session, page])).json.content_type, 'text/plain; charset=utf-8')
  const body = multipart([session, filePart('x'.repeat(5000))])
  const chunked = { 'Content-Length': null, 'Transfer-Encoding': 'chunked' }
  const chunk = Buffer.concat([
    Buffer.from(`${body.length.toString(16)}\r\n`),
    body,
    Buffer.from('\r\n0\r\n\r\n'),
  ])
  t.equal((await send(chunk, { headers: chunked })).status, 201, 'no length at all')
  const both = await send(chunk, { headers: { 'Transfer-Encoding': 'chunked' } })
  t.strictSame(codeIn(both), [400, 'malformed_request'], 'both')
  for (const value of ['-1', 'x', '1, 2', '9'.repeat(30)]) {
    const answer = await send(body, { headers: { 'Content-Length': value } })
    t.ok(answer.status >= 400 && answer.status < 500, `${value}: ${answer.status}`)
  }
  // The bytes after it would be the next request, which is invalid: no answer could be matched to this one.
  const less = send(body, { headers: { 'Content-Length': String(body.length - 100) } })
  await t.rejects(less, /the connection ended|ECONNRESET/, 'less than there is')
  const more = await open(body.length + 100)
  more.send(body)
  more.socket.end()
  await more.ended().catch(() => {})
  // No answer tells when these two have been cleaned up.
  await until(async () => (await leftIn(places)).length === 0)
  t.equal((await places.store.list('files/')).length, 2, 'more than there is')
})

t.test('a client that stops sending gets a reason', async (t) => {
  const { session, open, places } = await start(t)
  const body = multipart([session, filePart('slow '.repeat(200))])
  const stopped = await open(body.length)
  stopped.send(body.subarray(0, -10))
  t.strictSame(codeIn(await stopped.answer()), [408, 'request_timeout'])
  await stopped.ended()
  await assertNothingLeft(t, places)
})
