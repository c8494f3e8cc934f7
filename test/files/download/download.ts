import t from 'tap'
import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import {
  contentDisposition,
  parseRange,
  planDownload,
} from '../../../src/files/download/download.ts'
import type { Downloadable } from '../../../src/files/download/download.ts'
import { seeded } from '../../fixtures/random.ts'

const sha256 = hash('sha256', '0123456789')
const file = {
  bytes: 10,
  createdAt: 1795200000,
  filename: '报告.pdf',
  contentType: 'application/pdf',
  sha256,
}

interface Asked extends Partial<Downloadable> {
  readonly query?: string
  readonly method?: string
}

function plan(headers: IncomingHttpHeaders = {}, asked: Asked = {}) {
  const { query = '', method = 'GET', ...row } = asked
  return planDownload({ ...file, ...row }, { method, headers, query: new URLSearchParams(query) })
}

const all = {
  ETag: `"${sha256}"`,
  'Cache-Control': 'private, no-cache',
  'Last-Modified': 'Fri, 20 Nov 2026 18:40:00 GMT',
  'Content-Type': 'application/pdf',
  'Content-Disposition': `attachment; filename="__.pdf"; filename*=UTF-8''%E6%8A%A5%E5%91%8A.pdf`,
  'Accept-Ranges': 'bytes',
  'Repr-Digest': `sha-256=:${hash('sha256', '0123456789', 'base64')}:`,
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "sandbox; default-src 'none'",
  'Cross-Origin-Resource-Policy': 'same-site',
}

t.test('a whole file has the documented headers and no others', async (t) => {
  t.strictSame(plan(), { status: 200, headers: { ...all, 'Content-Length': '10' }, hasBody: true })
})

t.test('HEAD has the same headers, and no body; ranges are for GET only', async (t) => {
  for (const range of [{}, { range: 'bytes=2-5' }, { range: 'bytes=10-' }]) {
    t.strictSame(plan(range, { method: 'HEAD' }), { ...plan(), hasBody: false })
  }
})

t.test('a part says which it is, and its digest is that of the whole file', async (t) => {
  t.strictSame(plan({ range: 'bytes=-4' }), {
    status: 206,
    headers: { ...all, 'Content-Length': '4', 'Content-Range': 'bytes 6-9/10' },
    range: { start: 6, end: 9 },
    hasBody: true,
  })
  const whole = plan({ range: 'bytes=0-' })
  t.match(whole, { status: 206, headers: { 'Content-Range': 'bytes 0-9/10' } })
})

t.test('a range beyond the file is refused with its length', async (t) => {
  t.throws(() => plan({ range: 'bytes=10-' }), {
    code: 'range_not_satisfiable',
    headers: { 'Content-Range': 'bytes */10' },
  })
  t.throws(() => plan({ range: 'bytes=0-' }, { bytes: 0 }), {
    code: 'range_not_satisfiable',
    headers: { 'Content-Range': 'bytes */0' },
  })
})

t.test('several ranges, or invalid ones, give the whole file', async (t) => {
  for (const range of ['bytes=0-1,3-4', 'items=0-1', 'bytes=5-2', 'x']) {
    t.strictSame(plan({ range }), plan(), range)
  }
})

t.test('an empty file needs no store', async (t) => {
  const empty = { bytes: 0 }
  t.match(plan({}, empty), { status: 200, headers: { 'Content-Length': '0' }, hasBody: false })
  t.match(plan({ range: 'bytes=-5' }, empty), { status: 200, hasBody: false })
})

t.test('304 has the headers that keep a copy fresh, but no length or type', async (t) => {
  for (const method of ['GET', 'HEAD']) {
    const headers = { 'if-none-match': `W/"${sha256}"`, range: 'bytes=10-' }
    t.strictSame(plan(headers, { method }), {
      status: 304,
      headers: {
        ETag: `"${sha256}"`,
        'Cache-Control': 'private, no-cache',
        'Last-Modified': 'Fri, 20 Nov 2026 18:40:00 GMT',
      },
      hasBody: false,
    })
  }
  t.equal(plan({ 'if-modified-since': 'Fri, 20 Nov 2026 18:40:00 GMT' }).status, 304)
})

t.test('a failed precondition is reported before the range', async (t) => {
  for (const method of ['GET', 'HEAD']) {
    const refused = () => plan({ 'if-match': '"a"', range: 'bytes=10-' }, { method })
    t.throws(refused, { code: 'precondition_failed', status: 412 })
  }
})

t.test('If-Range of another version gives the whole file, whatever the range', async (t) => {
  const stale = { 'if-range': '"a"' }
  t.strictSame(plan({ ...stale, range: 'bytes=2-5' }), plan())
  t.strictSame(plan({ ...stale, range: 'bytes=10-' }), plan())
  t.equal(plan({ 'if-range': `"${sha256}"`, range: 'bytes=2-5' }).status, 206)
  t.strictSame(plan(stale), plan(), 'without a Range it means nothing')
})

t.test('inline is for types that a browser shows without running anything', async (t) => {
  const dispositionOf = (contentType: string, query: string) =>
    plan({}, { contentType, query }).headers['Content-Disposition']?.split(';')[0]
  const shown = ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif']
  for (const type of [...shown, 'audio/mpeg', 'video/mp4', 'text/plain; charset=utf-8']) {
    t.equal(dispositionOf(type, 'disposition=inline'), 'inline', type)
    t.equal(dispositionOf(type, 'disposition=attachment'), 'attachment', type)
    t.equal(dispositionOf(type, ''), 'attachment', type)
  }
  for (const type of ['text/html', 'image/svg+xml', 'application/pdf', 'text/plain', 'IMAGE/PNG']) {
    t.equal(dispositionOf(type, 'disposition=inline'), 'attachment', type)
  }
})

t.test('any other disposition is refused, before conditions', async (t) => {
  for (const wish of ['', 'INLINE', 'form-data', 'inline; filename=x', 'inline\r\nX: y']) {
    const query = String(new URLSearchParams({ disposition: wish }))
    t.throws(() => plan({ 'if-match': '"a"' }, { query }), {
      code: 'invalid_parameter',
      param: 'disposition',
    })
  }
})

t.test('the served type is a valid type, whatever the row has', async (t) => {
  const typeOf = (contentType: string) => plan({}, { contentType }).headers['Content-Type']
  for (const type of [
    'application/octet-stream',
    'text/plain; charset=utf-8',
    'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
    'audio/x-m4a',
    'image/svg+xml',
  ]) {
    t.equal(typeOf(type), type)
  }
  const broken = [
    '',
    'text',
    'a/b\r\nX: y',
    'a/b\n',
    'a/b; x=y',
    'multipart/x;boundary=a',
    'a/b, c/d',
  ]
  for (const type of broken) t.equal(typeOf(type), 'application/octet-stream', JSON.stringify(type))
})

interface Parsed {
  readonly type: string
  readonly plain: string
  readonly extended: string
}

/** Follows the grammars of RFC 6266 and RFC 8187 strictly; throws on any deviation. */
function parse(header: string): Parsed {
  const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
  const quoted = '"((?:[ !\\x23-\\x5b\\x5d-\\x7e]|\\\\[ -~])*)"'
  const extended = "UTF-8''((?:%[0-9A-F]{2}|[A-Za-z0-9!#$&+.^_`|~-])*)"
  const whole = new RegExp(`^(${token}); filename=${quoted}; filename\\*=${extended}$`)
  const [, type, plain, encoded] = whole.exec(header) ?? []
  if (type === undefined || plain === undefined || encoded === undefined) throw new Error(header)
  const bytes = encoded.replace(/%(..)/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  )
  const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  return { type, plain, extended: utf8.decode(Buffer.from(bytes, 'latin1')) }
}

t.test('a name is sent in both forms', async (t) => {
  t.equal(
    contentDisposition('attachment', '报告.pdf'),
    `attachment; filename="__.pdf"; filename*=UTF-8''%E6%8A%A5%E5%91%8A.pdf`,
  )
  t.equal(
    contentDisposition('inline', 'a b.png'),
    `inline; filename="a b.png"; filename*=UTF-8''a%20b.png`,
  )
})

t.test('the plain form has nothing that clients read differently', async (t) => {
  for (const [name, plain] of [
    ['Résumé Ångström.txt', 'Resume Angstrom.txt'],
    ['a"b\\c/d%41.txt', 'a_b_c_d_41.txt'],
    ['a\r\nSet-Cookie: b=c', 'a__Set-Cookie: b=c'],
    ['\u{1f600}.png', '_.png'],
    ['한글.txt', '__.txt'],
    ['\u2100.txt', '_.txt'],
    ['a; filename=x', 'a_ filename=x'],
    ['', ''],
  ] as const) {
    t.equal(parse(contentDisposition('attachment', name)).plain, plain, JSON.stringify(name))
  }
})

t.test('every code unit of UTF-16 is transported, alone and between letters', async (t) => {
  for (let unit = 0; unit <= 0xffff; unit++) {
    const name = `a${String.fromCharCode(unit)}z`
    const { type, plain, extended } = parse(contentDisposition('attachment', name))
    const isCarried = type === 'attachment' && extended === name.toWellFormed()
    if (!isCarried || !/^a[ -~]*z$/.test(plain)) t.fail(unit.toString(16))
  }
})

t.test('names of any characters come back unchanged', async (t) => {
  const random = seeded(6266)
  const hostile = [...`"\\;%\0'*=\u202e`, '%22', '\r\n', '\ud800', '\udc00']
  const letter = () => {
    const kind = random(4)
    if (kind === 0) return hostile[random(hostile.length)] ?? ''
    if (kind === 1) return String.fromCodePoint(random(0x110000))
    return String.fromCodePoint(random(kind === 2 ? 0x80 : 0x3000))
  }
  for (let i = 0; i < 20_000; i++) {
    const name = Array.from({ length: random(12) }, letter).join('')
    const { extended } = parse(contentDisposition('inline', name))
    if (extended !== name.toWellFormed()) t.fail(JSON.stringify(name))
  }
})

t.test('each of the three forms of a range is read', async (t) => {
  for (const [header, start, end] of [
    ['bytes=0-0', 0, 0],
    ['bytes=2-5', 2, 5],
    ['bytes=2-', 2, 9],
    ['bytes=-3', 7, 9],
    ['bytes=0-9', 0, 9],
    ['bytes=9-9', 9, 9],
    ['Bytes=2-5', 2, 5],
    ['bytes=2-5,', 2, 5],
    ['bytes= , 2-5 ,', 2, 5],
    ['bytes=002-05', 2, 5],
  ] as const) {
    t.same(parseRange(header, 10), { start, end }, header)
  }
})

t.test('a range that goes beyond the end is shortened', async (t) => {
  const huge = '9'.repeat(400)
  t.same(parseRange('bytes=5-10', 10), { start: 5, end: 9 })
  t.same(parseRange(`bytes=5-${huge}`, 10), { start: 5, end: 9 })
  t.same(parseRange('bytes=-11', 10), { start: 0, end: 9 }, 'a suffix longer than the file')
  t.same(parseRange(`bytes=-${huge}`, 10), { start: 0, end: 9 })
})

t.test('a range without any byte of the file is not satisfiable', async (t) => {
  for (const header of ['bytes=10-', 'bytes=10-20', 'bytes=-0', `bytes=${'9'.repeat(400)}-`]) {
    t.equal(parseRange(header, 10), 'none', header)
  }
  for (const header of ['bytes=0-', 'bytes=0-0', 'bytes=-0']) {
    t.equal(parseRange(header, 0), 'none', `${header} of an empty file`)
  }
  t.equal(parseRange('bytes=-1', 0), 'whole', 'an empty file has a suffix, and it is empty')
})

t.test('anything but a single valid range of bytes counts as absent', async (t) => {
  for (const header of [
    '',
    'bytes',
    'bytes=',
    'bytes=-',
    'bytes=,',
    'bytes=a-b',
    'bytes=1',
    'bytes=1-2-3',
    'bytes=--1',
    'bytes=+1-2',
    'bytes=1.0-2',
    'bytes=0x1-2',
    'bytes=1 - 2',
    'bytes=5-2',
    `bytes=${'9'.repeat(30)}2-${'9'.repeat(30)}1`,
    'bytes=٣-٤',
    'bytes 2-5',
    'bytes =2-5',
    'items=2-5',
    'bytes=0-1,3-4',
    'bytes=0-1, bytes=3-4',
    'bytes=10-,20-',
    'none',
  ]) {
    t.equal(parseRange(header, 10), 'whole', header)
  }
})

t.test('whatever is requested, what is sent is within the file', async (t) => {
  const random = seeded(9110)
  const letters = ['bytes=', '-', ',', ' ', '0', '1', '7', '12', '99', 'x', '=']
  for (let i = 0; i < 50_000; i++) {
    const bytes = random(15)
    const header = Array.from({ length: random(7) }, () => letters[random(letters.length)]).join('')
    const range = parseRange(`bytes=${header}`, bytes)
    if (typeof range === 'string') continue
    const { start, end } = range
    const isWithin = Number.isInteger(start) && Number.isInteger(end) && 0 <= start && start <= end
    if (!isWithin || end >= bytes) t.fail(`${header} of ${bytes}: ${start}-${end}`)
  }
})

t.test('a long header is read quickly', async (t) => {
  const began = process.cpuUsage()
  for (const long of [
    'bytes=' + ' '.repeat(15_000) + 'x',
    'bytes=' + ','.repeat(15_000),
    'bytes=' + '1-2,'.repeat(4000),
  ]) {
    t.equal(parseRange(long, 10), 'whole')
  }
  t.ok(process.cpuUsage(began).user < 200_000, 'µs of CPU, however busy the machine')
})
