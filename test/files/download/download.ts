import t from 'tap'
import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { planDownload } from '../../../src/files/download/download.ts'
import type { Downloadable } from '../../../src/files/download/download.ts'

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
