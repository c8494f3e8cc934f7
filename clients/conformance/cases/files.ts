// Files over connections that break, and from servers that send something else: what is shown is whole, or an error.

import assert from 'node:assert/strict'
import { gzipSync } from 'node:zlib'
import { each, one } from '../case.ts'
import type { Case, Json } from '../case.ts'
import type { Answer } from '../server.ts'
import { errorBody, hashOf, session } from '../transcript.ts'

const content = Buffer.from('The quick brown fox – 你好. '.repeat(400))
const etag = `"${hashOf(content)}"`

export const files: readonly Case[] = [
  one('an earlier download of which a part comes goes on to the file’s end', {
    answers: [range(100, 200), range(200, 300), range(300, content.length)],
    steps: [{ op: 'files.content', id: 'file_1', start: 100, etag }],
    saw: [{ ok: { bytes: content.length - 100, sha256: hashOf(content.subarray(100)) } }],
    check: ({ sent }) =>
      assert.deepEqual(
        sent.map(({ headers }) => headers.range),
        ['bytes=100-', 'bytes=200-', 'bytes=300-'],
      ),
  }),
  one('a download goes on as often as it gets further', {
    answers: Array.from({ length: 9 }, (_, i) => crumb(i * 1000)),
    steps: [{ op: 'files.content', id: 'file_1' }],
    saw: [{ ok: { bytes: content.length, sha256: hashOf(content) } }],
    sent: Array.from({ length: 9 }, () => ({})),
  }),
  one('a download that comes packed is unpacked, or refused', {
    answers: [
      {
        headers: { etag, 'content-type': 'text/plain', 'content-encoding': 'gzip' },
        body: [gzipSync(content)],
      },
    ],
    steps: [{ op: 'files.content', id: 'file_1' }],
    check({ steps }) {
      const [step] = steps as readonly { ok?: Json; error?: { class: string } }[]
      assert.ok(step?.ok?.sha256 === hashOf(content) || step?.error, JSON.stringify(step))
    },
  }),
  one('the middle of something else is not taken for the rest', {
    answers: [
      { ...range(0, content.length), status: 200, body: [content.subarray(0, 100)], end: 'fin' },
      range(90, content.length),
    ],
    steps: [{ op: 'files.content', id: 'file_1' }],
    saw: [{ error: { class: 'IncompleteStreamError' } }],
    sent: [{}, { headers: { range: 'bytes=100-', 'if-range': etag } }],
  }),
  one('the rest of another file is not taken for the rest of this one', {
    answers: [
      { ...crumb(0), end: 'fin' },
      {
        ...range(1000, content.length),
        headers: { ...range(1000, content.length).headers, etag: '"2"' },
      },
    ],
    steps: [{ op: 'files.content', id: 'file_1' }],
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
    steps: [{ op: 'files.content', id: 'file_1' }],
    saw: [{ error: { class: 'IncompleteStreamError' } }],
    sent: [{}],
  }),
  one('an upload’s connection that ends before all is sent', {
    client: { max_retries: 0 },
    answers: [{ on: 'POST', early: true, drop: 'reset' }],
    steps: [
      { op: 'files.upload', session_id: session, filename: 'a.bin', text: 'x'.repeat(3_000_000) },
    ],
    saw: [{ error: { class: 'ConnectionError' } }],
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
      steps: [{ op: 'files.content', id: 'file_1' }],
      saw: [{ ok: { bytes: content.length, filename: 'a.txt' } }],
    }),
  ),
  each('an upload that is refused tells why', [401, 421] as const, (status) => ({
    client: { max_retries: 0 },
    answers: [{ status, json: errorBody({ type: 'x', code: 'some_code' }) }],
    steps: [{ op: 'files.upload', session_id: session, filename: 'a', once: 'hello' }],
    saw: [{ error: { status, code: 'some_code' } }],
    sent: [{}],
  })),
]

function range(from: number, to: number): Answer {
  return {
    on: 'GET',
    status: 206,
    headers: {
      etag,
      'content-type': 'text/plain',
      'content-length': String(to - from),
      'content-range': `bytes ${from}-${to - 1}/${content.length}`,
    },
    body: [content.subarray(from, to)],
  }
}

/** A thousand bytes of the rest, then a cut; the ninth is all of it. */
function crumb(from: number): Answer {
  const answer = range(from, content.length)
  if (from === 8000) return answer
  return {
    ...answer,
    status: from === 0 ? 200 : 206,
    body: [content.subarray(from, from + 1000)],
    end: 'fin',
  }
}
