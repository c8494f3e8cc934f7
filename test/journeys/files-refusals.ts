// Uploads that no library would send, to a whole gateway: names in every form, forms in the wrong order, cut, mutated,
// with false types and lengths, or slow. Each is accepted with a clean name or refused with a reason, and a refused one
// leaves nothing.

import t from 'tap'
import type { Test } from 'tap'
import { startFiles } from '../fixtures/files-http.ts'
import { assertNothingLeft, leftIn } from '../fixtures/files-left.ts'
import { boundary, field, filePart, multipart } from '../fixtures/multipart.ts'
import type { PartSpec } from '../fixtures/multipart.ts'
import { seeded } from '../fixtures/random.ts'
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
const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)

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

const long = 'n'.repeat(5000)

/** The parameters of Content-Disposition after `name="file"`, as bytes → the name that is kept. */
const names: readonly (readonly [string | Buffer, string])[] = [
  ['filename="report.pdf"', 'report.pdf'],
  ['filename=plain.txt', 'plain.txt'],
  ['filename="отчёт.txt"', 'отчёт.txt'],
  ['filename="έκθεση.txt"', 'έκθεση.txt'],
  ['filename="报告.txt"', '报告.txt'],
  ['filename="報告書.txt"', '報告書.txt'],
  ['filename="보고서.txt"', '보고서.txt'],
  ['filename="تقرير.txt"', 'تقرير.txt'],
  ['filename="דוח.txt"', 'דוח.txt'],
  ['filename="रिपोर्ट.txt"', 'रिपोर्ट.txt'],
  ['filename="รายงาน.txt"', 'รายงาน.txt'],
  ['filename="👩🏽‍💻.txt"', '👩🏽‍💻.txt'],
  ["filename*=UTF-8''%E6%8A%A5%E5%91%8A.txt", '报告.txt'],
  ['filename="a.txt"; filename*=utf-8\'\'%D0%BE.txt', 'о.txt'],
  ["filename*=ISO-8859-1'de'Gr%FC%DFe.txt", 'Grüße.txt'],
  [Buffer.from('filename="Gr\xfc\xdfe.txt"', 'latin1'), 'Grüße.txt'],
  ['filename="a%22b%0D%0Ac.txt"', 'a"bc.txt'],
  ['filename="a\\"b.txt"', 'a"b.txt'],
  ['filename="../../etc/passwd"', 'passwd'],
  ['filename="C:\\dir\\evil.exe"', 'evil.exe'],
  ["filename*=UTF-8''..%2F..%2Fetc%2Fpasswd", 'passwd'],
  ["filename*=UTF-8''a%00b%0D%0ASet-Cookie%3A%20x.txt", 'abSet-Cookie: x.txt'],
  ['filename=".htaccess"', 'htaccess'],
  ['filename=".."', 'file'],
  ['filename="photo_\u202egpj.exe"', 'photo_gpj.exe'],
  [`filename="${long}.txt"`, `${'n'.repeat(251)}.txt`],
]

t.test(
  'names in ten scripts and every form are kept clean, and served in sound headers',
  async (t) => {
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
  },
)

t.test('what a form must not be is refused by name, and nothing of it is left', async (t) => {
  const { own, stranger, session, send, places } = await start(t)
  const file = filePart('x')
  const over = filePart('x'.repeat(maxBytes + 1))
  const whole = multipart([session, file])
  const type = (value: string | null) => ({ headers: { 'Content-Type': value } })
  const refusals: readonly (readonly [
    string,
    readonly PartSpec[] | Buffer,
    number,
    string,
    Sent?,
  ])[] = [
    ['the session behind the file', [file, session], 400, 'missing_parameter'],
    ['no session', [file], 400, 'missing_parameter'],
    ['no file', [session], 400, 'missing_parameter'],
    ['no part', [], 400, 'missing_parameter'],
    ['nothing', Buffer.alloc(0), 400, 'malformed_request'],
    ['a file that nobody chose', [session, filePart('', '')], 400, 'missing_parameter'],
    ['two files', [session, file, file], 400, 'invalid_parameter'],
    ['two sessions', [session, session, file], 400, 'invalid_parameter'],
    ['a text as the file', [session, field('file', 'x')], 400, 'invalid_parameter'],
    [
      'a field behind it that nobody knows',
      [session, file, field('x', '1')],
      400,
      'unknown_parameter',
    ],
    [
      'a purpose with a line end',
      [session, field('purpose', 'a\nb'), file],
      400,
      'invalid_parameter',
    ],
    [
      'an expiry of nothing',
      [session, file, field('expires_after', '0')],
      400,
      'invalid_parameter',
    ],
    ['a sum that is none', [session, file, field('sha256', 'x')], 400, 'invalid_parameter'],
    ['another sum', [session, file, field('sha256', '0'.repeat(64))], 422, 'checksum_mismatch'],
    [
      'a session of another',
      [field('session_id', stranger.session), file],
      404,
      'session_not_found',
    ],
    ['a session that is no id', [field('session_id', '../x\0'), file], 404, 'session_not_found'],
    ['a byte more', [session, over], 413, 'file_too_large'],
    [
      'a byte more, and a field behind it',
      [session, over, field('purpose', 'x')],
      413,
      'file_too_large',
    ],
    [
      'a field of 5 kB',
      [field('purpose', 'x'.repeat(5000)), session, file],
      400,
      'invalid_parameter',
    ],
    ['JSON', Buffer.from('{}'), 415, 'unsupported_media_type', type('application/json')],
    [
      'another multipart',
      whole,
      415,
      'unsupported_media_type',
      type(`multipart/mixed; boundary=${boundary}`),
    ],
    ['no Content-Type', whole, 415, 'unsupported_media_type', type(null)],
    ['no boundary', whole, 400, 'malformed_request', type('multipart/form-data')],
    ['another boundary', whole, 400, 'malformed_request', type('multipart/form-data; boundary=x')],
    [
      'compressed',
      whole,
      415,
      'unsupported_media_type',
      { headers: { 'Content-Encoding': 'gzip' } },
    ],
    ['a form without its end', whole.subarray(0, -boundary.length - 6), 400, 'malformed_request'],
    ['a part without its end', whole.subarray(0, -boundary.length - 9), 400, 'malformed_request'],
    [
      'a NUL in a header',
      [
        session,
        { disposition: 'Content-Disposition: form-data; name="file"; filename="a\0b"', value: 'x' },
      ],
      400,
      'malformed_request',
    ],
    [
      'two ids that differ',
      [session, file],
      400,
      'invalid_parameter',
      { query: `?session_id=${stranger.session}` },
    ],
    ['no key', whole, 401, 'missing_api_key', { headers: { Authorization: null } }],
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

t.test(`300 mutated forms are taken or refused (SEED=${seed})`, async (t) => {
  const { session, send, places } = await start(t)
  const random = seeded(seed)
  const parts = [
    session,
    field('purpose', 'user_data'),
    filePart('x\r\n--x\r\n'.repeat(20)),
    field('expires_after', '60'),
  ]
  const sound = multipart(parts)
  const seen = new Map<number, number>()
  for (let count = 0; count < 300; count++) {
    let form = sound
    for (let changes = 1 + random(3); changes > 0; changes--) {
      const [from, to] = [random(form.length), random(form.length)].sort((a, b) => a - b)
      const [start, rest] = [form.subarray(0, from), form.subarray(from)]
      const added = [
        Buffer.from([random(256)]),
        form.subarray(from, to),
        Buffer.from(`\r\n--${boundary}${random(2) ? '--' : ''}\r\n`),
        Buffer.alloc(0),
      ][random(4)]
      form = Buffer.concat([start, added ?? Buffer.alloc(0), rest.subarray(random(30))])
    }
    const { status, json } = await send(form)
    seen.set(status, (seen.get(status) ?? 0) + 1)
    const isSound = status === 201 || (status >= 400 && status < 500 && json.error !== undefined)
    if (!isSound || status === 408) t.fail(`${status}`, { form: form.toString('latin1') })
  }
  t.comment(JSON.stringify(Object.fromEntries(seen)))
  t.ok((seen.get(201) ?? 0) > 0 && (seen.get(400) ?? 0) > 0, 'both were seen')
  t.equal((await places.store.list('files/')).length, seen.get(201))
  await assertNothingLeft(t, places)
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
