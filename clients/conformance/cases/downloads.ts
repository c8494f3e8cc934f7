// Downloads over connections that break, and from servers that send something else: what the client gives is whole, or
// an error.

import assert from 'node:assert/strict'
import { gzipSync } from 'node:zlib'
import { each, one } from '../case.ts'
import type { Case, Json, Step } from '../case.ts'
import type { Answer } from '../server.ts'
import { hashOf, refuse } from '../transcript.ts'
import { rises } from './steps.ts'

const content = Buffer.from('The quick brown fox – 你好. '.repeat(4000))
const etag = `"${hashOf(content)}"`
const whole = { bytes: content.length, sha256: hashOf(content) }
const download: Step = { op: 'files.content', id: 'file_1' }
const head = {
  'content-type': 'application/pdf',
  etag,
  'accept-ranges': 'bytes',
  'content-disposition': `attachment; filename="__.pdf"; filename*=UTF-8''%E6%8A%A5%E5%91%8A.pdf`,
}

/** The rest of the file from `start` on, or the first `bytes` of that; `more`: for example how the answer ends. */
function part(start: number, bytes = content.length, more: Partial<Answer> = {}): Answer {
  const range = { 'content-range': `bytes ${start}-${content.length - 1}/${content.length}` }
  return {
    status: start === 0 ? 200 : 206,
    body: [content.subarray(start, start + bytes)],
    ...more,
    headers: {
      ...head,
      'content-length': String(content.length - start),
      ...(start > 0 && range),
      ...more.headers,
    },
  }
}

/** Exactly this part, since a server may answer with any part. */
function range(from: number, to: number): Answer {
  const headers = {
    'content-length': String(to - from),
    'content-range': `bytes ${from}-${to - 1}/${content.length}`,
  }
  return part(from, to - from, { status: 206, headers })
}

/** The head of an answer without a length: the answer ends when its connection does. */
function unmeasured(start: number): string {
  return [
    'HTTP/1.1 206 Partial Content',
    `content-range: bytes ${start}-${content.length - 1}/${content.length}`,
    `etag: ${etag}`,
    'connection: close',
    '\r\n',
  ].join('\r\n')
}

export const downloads: readonly Case[] = [
  one('a download, whole, with its type and name', {
    answers: [part(0)],
    steps: [download],
    saw: [{ ok: { ...whole, content_type: 'application/pdf', filename: '报告.pdf' } }],
    check: ({ steps }) => rises(steps[0], content.length),
  }),
  each('a download that is cut goes on where it was', ['fin', 'reset'] as const, (end) => ({
    answers: [part(0, 50_000, { end }), { ...part(50_000), on: 'GET' }],
    steps: [download],
    check({ sent, steps }) {
      assert.equal(sent.length, 2)
      assert.equal(sent[1]?.headers['if-range'], etag)
      const from = /^bytes=(\d+)-$/.exec(sent[1]?.headers.range ?? '')?.[1]
      if (end === 'fin') {
        assert.equal(from, '50000')
        assert.deepEqual({ ...(steps[0]?.ok as Json), ...whole }, steps[0]?.ok)
      }
    },
  })),
  one('a download whose file has changed meanwhile is incomplete', {
    answers: [
      part(0, 50_000, { end: 'fin' }),
      part(0, content.length, { headers: { etag: '"another"' } }),
    ],
    steps: [download],
    saw: [{ error: { class: 'IncompleteStreamError' } }],
    sent: [{}, {}],
  }),
  one('a download without an ETag is not put together from two', {
    answers: [{ headers: { 'content-length': '100' }, body: ['half'], end: 'fin' }],
    steps: [download],
    saw: [{ error: { class: 'IncompleteStreamError' } }],
    sent: [{}],
  }),
  one('a download without progress is given up', {
    answers: [
      part(0, 50_000, { end: 'fin' }),
      ...Array.from({ length: 9 }, () => part(50_000, 0, { end: 'fin' })),
    ],
    steps: [download],
    saw: [{ error: { class: 'IncompleteStreamError' } }],
    sent: [1, 2, 3, 4, 5, 6].map(() => ({})),
  }),
  one('a download that is left closes its connection', {
    answers: [part(0, 50_000, { end: 'open' })],
    steps: [{ ...download, take: 1000 }],
    sent: [{}],
    eventually: ({ sent }) => sent[0]?.closedEarly === true,
  }),
  one('an earlier download goes on', {
    answers: [part(100_000)],
    steps: [{ ...download, start: 100_000, etag }],
    saw: [{ ok: { bytes: content.length - 100_000, sha256: hashOf(content.subarray(100_000)) } }],
    sent: [{ headers: { range: 'bytes=100000-', 'if-range': etag } }],
    check: ({ steps }) => rises(steps[0], content.length),
  }),
  one('a download whose size the server does not tell says so at each step', {
    answers: [{ headers: { etag }, body: [content] }],
    steps: [download],
    check: ({ steps }) => rises(steps[0], content.length, null),
  }),
  one('an earlier download whose file has changed does not', {
    answers: [part(0)],
    steps: [{ ...download, start: 100_000, etag: '"old"' }],
    saw: [{ error: { class: 'IncompleteStreamError' } }],
  }),
  one('an earlier download does not go on in another file', {
    answers: [part(100_000, content.length, { headers: { etag: '"2"' } })],
    steps: [{ ...download, start: 100_000, etag }],
    saw: [{ error: { class: 'IncompleteStreamError' } }],
  }),
  one('a file that is not there', {
    answers: [refuse({ status: 404, type: 'not_found_error', code: 'file_not_found' })],
    steps: [download],
    saw: [{ error: { class: 'NotFoundError', code: 'file_not_found' } }],
  }),
  one('an earlier download of which a part comes goes on to the file’s end', {
    answers: [range(100, 200), range(200, 300), range(300, content.length)],
    steps: [{ ...download, start: 100, etag }],
    saw: [{ ok: { bytes: content.length - 100, sha256: hashOf(content.subarray(100)) } }],
    check: ({ sent }) =>
      assert.deepEqual(
        sent.map(({ headers }) => headers.range),
        ['bytes=100-', 'bytes=200-', 'bytes=300-'],
      ),
  }),
  one('a download goes on as often as it gets further', {
    answers: [
      ...Array.from({ length: 8 }, (_, i) => part(i * 1000, 1000, { end: 'fin' })),
      part(8000),
    ],
    steps: [download],
    saw: [{ ok: { bytes: content.length, sha256: hashOf(content) } }],
    sent: Array.from({ length: 9 }, () => ({})),
  }),
  one('a part that ends with its connection, before its end, is no whole one', {
    answers: [
      part(0, 50_000, { end: 'fin' }),
      { raw: [unmeasured(50_000), content.subarray(50_000, 80_000)], end: 'fin' },
      part(80_000),
    ],
    steps: [download],
    saw: [{ ok: whole }],
    sent: [{}, { headers: { range: 'bytes=50000-' } }, { headers: { range: 'bytes=80000-' } }],
  }),
  one('a download that is cut before its first byte begins anew', {
    answers: [part(0, 0, { end: 'fin' }), part(0)],
    steps: [download],
    saw: [{ ok: whole }],
  }),
  one('a download that begins anew is not of another file', {
    answers: [part(0, 0, { end: 'fin' }), part(0, content.length, { headers: { etag: '"2"' } })],
    steps: [download],
    saw: [{ error: { class: 'IncompleteStreamError' } }],
  }),
  one('a tag of which there is nothing yet is none', {
    answers: [part(0)],
    steps: [{ ...download, etag: '"old"' }],
    saw: [{ ok: whole }],
    sent: [{ headers: { 'if-range': undefined } }],
  }),
  one('an empty tag is none', {
    answers: [part(100_000)],
    steps: [{ ...download, start: 100_000, etag: '' }],
    saw: [{ ok: { bytes: content.length - 100_000 } }],
    sent: [{ headers: { 'if-range': undefined } }],
  }),
  one('the size that only the rest tells counts', {
    answers: [
      { headers: head, body: [content.subarray(0, 50_000)], end: 'fin' },
      { raw: [unmeasured(50_000), content.subarray(50_000, 80_000)], end: 'fin' },
      part(80_000),
    ],
    steps: [download],
    saw: [{ ok: whole }],
    sent: [{}, {}, {}],
  }),
  one('a download that comes packed is unpacked, or refused', {
    answers: [
      {
        headers: { etag, 'content-type': 'text/plain', 'content-encoding': 'gzip' },
        body: [gzipSync(content)],
      },
    ],
    steps: [download],
    check({ steps }) {
      const [step] = steps as readonly { ok?: Json; error?: { class: string } }[]
      assert.ok(step?.ok?.sha256 === hashOf(content) || step?.error, JSON.stringify(step))
    },
  }),
  one('a part that nobody asked for is no file', {
    answers: [range(100, 200), range(100, content.length)],
    steps: [download],
    saw: [{ error: { class: 'IncompleteStreamError' } }],
    sent: [{}],
  }),
  one('the middle of something else is not taken for the rest', {
    answers: [part(0, 100, { end: 'fin' }), range(90, content.length)],
    steps: [download],
    saw: [{ error: { class: 'IncompleteStreamError' } }],
    sent: [{}, { headers: { range: 'bytes=100-', 'if-range': etag } }],
  }),
  one('the rest of another file is not taken for the rest of this one', {
    answers: [
      part(0, 1000, { end: 'fin' }),
      part(1000, content.length, { headers: { etag: '"2"' } }),
    ],
    steps: [download],
    saw: [{ error: { class: 'IncompleteStreamError' } }],
    sent: [{}, {}],
  }),
  one('a weak tag is no promise that the bytes are the same', {
    answers: [
      {
        headers: { etag: 'W/"1"', 'content-length': '100' },
        body: [content.subarray(0, 50)],
        end: 'fin',
      },
    ],
    steps: [download],
    saw: [{ error: { class: 'IncompleteStreamError' } }],
    sent: [{}],
  }),
  each(
    'a file’s name is no path',
    [
      'attachment; filename="../../etc/a.txt"',
      'attachment; filename="x"; filename*=UTF-8\'\'..%2F..%2Fetc%2Fa.txt',
      'attachment; filename="C:\\\\temp\\\\a.txt"',
      "attachment; filename*=UTF-8''..%5C..%5Ca.txt",
    ],
    (disposition) => ({
      answers: [{ headers: { etag, 'content-disposition': disposition }, body: [content] }],
      steps: [download],
      saw: [{ ok: { bytes: content.length, filename: 'a.txt' } }],
    }),
  ),
]
