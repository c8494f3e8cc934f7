// Uploads: the form, its length, the file's name, and what the caller is told.

import assert from 'node:assert/strict'
import { each, one } from '../case.ts'
import type { Case } from '../case.ts'
import { errorBody, fileObject, hashOf, overloaded, refuse, session } from '../transcript.ts'
import { rises } from './steps.ts'

const text = 'The quick brown fox – 你好. '.repeat(4000)
const content = Buffer.from(text)

export const uploads: readonly Case[] = [
  one('an upload: the session before the file, its name as it is, its length told', {
    answers: [{ status: 201, json: fileObject() }],
    steps: [
      {
        op: 'files.upload',
        session_id: session,
        filename: '报告 “2026”.txt',
        text,
        content_type: 'text/plain',
        sha256: hashOf(content),
        purpose: 'user_data',
        expires_after: 3600,
      },
    ],
    saw: [{ ok: { file: fileObject() } }],
    check({ sent, steps }) {
      const [request] = sent
      assert.equal(request?.path, '/api/files/upload')
      assert.match(request.headers['content-type'] ?? '', /^multipart\/form-data; *boundary=/)
      assert.ok(Number(request.headers['content-length']) > content.length, 'its length is told')
      const form = request.form ?? []
      const fields = form.slice(0, -1).toSorted(([a], [b]) => (a < b ? -1 : 1))
      assert.deepEqual(fields, [
        ['expires_after', '3600'],
        ['purpose', 'user_data'],
        ['session_id', session],
        ['sha256', hashOf(content)],
      ])
      assert.deepEqual(form.at(-1), [
        'file',
        {
          filename: '报告 “2026”.txt',
          type: 'text/plain',
          bytes: content.length,
          sha256: hashOf(content),
        },
      ])
      rises(steps[0], content.length)
    },
  }),
  one('an upload whose size nobody knows says so at each step', {
    answers: [{ status: 201, json: fileObject() }],
    steps: [{ op: 'files.upload', session_id: session, filename: 'a.txt', once: text }],
    check({ sent, steps }) {
      assert.equal(sent[0]?.headers['content-length'], undefined)
      rises(steps[0], content.length, null)
    },
  }),
  one('progress that is sent again has the same total, and does not fall', {
    answers: [refuse(overloaded), { status: 201, json: fileObject() }],
    steps: [{ op: 'files.upload', session_id: session, filename: 'a.txt', text }],
    sent: [{}, {}],
    check: ({ steps }) => rises(steps[0], content.length),
  }),
  each(
    'a file’s name can’t leave its quotes',
    ['a"b.txt', 'a\r\nContent-Type: text/html\r\n\r\nb.txt', 'a\\b".txt'],
    (filename) => ({
      answers: [{ status: 201, json: fileObject() }],
      steps: [{ op: 'files.upload', session_id: session, filename, text: 'hello' }],
      check({ sent }) {
        const file = sent[0]?.form?.at(-1)
        assert.equal(file?.[0], 'file')
        assert.equal((file[1] as { bytes: number }).bytes, 5)
        assert.equal(sent[0]?.form?.length, 2)
      },
    }),
  ),
  one('an upload that is refused before it is whole tells why', {
    answers: [
      {
        on: 'POST',
        early: true,
        ...refuse({ status: 413, type: 'request_too_large', code: 'file_too_large' }),
      },
    ],
    steps: [
      { op: 'files.upload', session_id: session, filename: 'a.bin', text: 'x'.repeat(3_000_000) },
    ],
    saw: [{ error: { class: 'BadRequestError', status: 413, code: 'file_too_large' } }],
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
  each('an upload that is refused tells why', [401, 421] as const, (status) => ({
    client: { max_retries: 0 },
    answers: [{ status, json: errorBody({ type: 'x', code: 'some_code' }) }],
    steps: [{ op: 'files.upload', session_id: session, filename: 'a', once: 'hello' }],
    saw: [{ error: { status, code: 'some_code' } }],
    sent: [{}],
  })),
]
