// Sessions, messages, files, billing, models: what is asked, what is shown, pages to their end, files whole.

import assert from 'node:assert/strict'
import { each, one } from '../case.ts'
import type { Case, Json, Step } from '../case.ts'
import type { Answer } from '../server.ts'
import {
  fileObject,
  hashOf,
  list,
  messageObject,
  messagePath,
  refuse,
  sendPath,
  session,
  sessionObject,
} from '../transcript.ts'

const sessions = '/api/chat/sessions'
const text = 'The quick brown fox – 你好. '.repeat(4000)
const content = Buffer.from(text)
const download: Step = { op: 'files.content', id: 'file_1' }
const head = {
  'content-type': 'application/pdf',
  etag: `"${hashOf(content)}"`,
  'accept-ranges': 'bytes',
  'content-disposition': `attachment; filename="__.pdf"; filename*=UTF-8''%E6%8A%A5%E5%91%8A.pdf`,
}

function page(from: number, count: number): readonly Json[] {
  return Array.from({ length: count }, (_, i) => sessionObject(`sess_${from + i}`))
}

function part(start: number, bytes: number | undefined, more: Partial<Answer> = {}): Answer {
  const end = bytes === undefined ? content.length : start + bytes
  return {
    status: start === 0 ? 200 : 206,
    headers: {
      ...head,
      'content-length': String(content.length - start),
      ...(start === 0
        ? {}
        : { 'content-range': `bytes ${start}-${content.length - 1}/${content.length}` }),
    },
    body: [content.subarray(start, end)],
    ...more,
  }
}

const whole = { bytes: content.length, sha256: hashOf(content) }

export const resources: readonly Case[] = [
  one('sessions: create, read, change, delete', {
    answers: [
      { status: 201, json: sessionObject() },
      { json: sessionObject() },
      { json: { ...sessionObject(), title: null } },
      { status: 204 },
    ],
    steps: [
      { op: 'sessions.create', params: { title: 'Demo', metadata: { a: 'b' } } },
      { op: 'sessions.retrieve', id: session },
      { op: 'sessions.update', id: session, params: { title: null } },
      { op: 'sessions.delete', id: session },
    ],
    saw: [
      { ok: sessionObject() },
      { ok: sessionObject() },
      { ok: { title: null } },
      { ok: null, error: null },
    ],
    sent: [
      { method: 'POST', path: sessions, json: { title: 'Demo', metadata: { a: 'b' } } },
      { method: 'GET', path: `${sessions}/${session}` },
      { method: 'PATCH', path: `${sessions}/${session}`, json: { title: null } },
      { method: 'DELETE', path: `${sessions}/${session}` },
    ],
  }),
  one('fields and values unheard of are kept', {
    answers: [
      { json: { ...sessionObject(), colour: { of: ['the', 1] }, model: null } },
      { json: messageObject({ status: 'dreaming', x: 9007199254740991 }) },
    ],
    steps: [
      { op: 'sessions.retrieve', id: session },
      { op: 'messages.retrieve', session_id: session, id: 'msg_1' },
    ],
    saw: [
      { ok: { colour: { of: ['the', 1] }, model: null } },
      { ok: { status: 'dreaming', x: 9007199254740991 } },
    ],
  }),
  one('fields that do not come are no error', {
    answers: [
      { json: { id: session } },
      { json: { id: 'msg_1', usage: {} } },
      { json: { balance: 1 } },
    ],
    steps: [
      { op: 'sessions.retrieve', id: session },
      { op: 'messages.retrieve', session_id: session, id: 'msg_1' },
      { op: 'billing.balance' },
    ],
    saw: [{ ok: { id: session } }, { ok: { id: 'msg_1' } }, { ok: { balance: 1 } }],
  }),
  one('messages: read, list, cancel', {
    answers: [
      { json: messageObject() },
      list([messageObject({ id: 'msg_0', role: 'user' }), messageObject()], false),
      { json: messageObject({ status: 'cancelled' }) },
    ],
    steps: [
      { op: 'messages.retrieve', session_id: session, id: 'msg_1' },
      { op: 'messages.list', session_id: session, params: { order: 'asc' } },
      { op: 'messages.cancel', session_id: session, id: 'msg_1' },
    ],
    saw: [
      { ok: messageObject() },
      { ok: [{ id: 'msg_0' }, { id: 'msg_1' }] },
      { ok: { status: 'cancelled' } },
    ],
    sent: [
      { method: 'GET', path: messagePath },
      { method: 'GET', path: `${sendPath}?order=asc` },
      { method: 'POST', path: `${messagePath}/cancel` },
    ],
  }),
  one('new turns of several messages, with tools', {
    answers: [{ json: messageObject() }],
    steps: [
      {
        op: 'messages.send',
        session_id: session,
        messages: [{ role: 'tool', tool_call_id: 'c1', content: '7' }],
        params: {
          model: 'demo',
          tools: [{ type: 'function', function: { name: 'f' } }],
          on_disconnect: 'cancel',
        },
      },
    ],
    sent: [
      {
        path: sendPath,
        json: {
          messages: [{ role: 'tool', tool_call_id: 'c1', content: '7' }],
          model: 'demo',
          tools: [{ type: 'function', function: { name: 'f' } }],
          on_disconnect: 'cancel',
          stream: false,
        },
      },
    ],
  }),
  one('parts: text and a file', {
    answers: [{ json: messageObject() }],
    steps: [{ op: 'messages.send', session_id: session, content: parts() }],
    sent: [{ json: { content: parts() } }],
  }),
  one('a list is all of its pages', {
    answers: [list(page(0, 100), true), list(page(100, 100), true), list(page(200, 50), false)],
    steps: [{ op: 'sessions.list', params: { limit: 100, order: 'asc' } }],
    saw: [{ ok: page(0, 250).map(({ id }) => ({ id })) }],
    sent: [undefined, 'sess_99', 'sess_199'].map((after) => ({
      path: listed({ limit: '100', order: 'asc', after }),
    })),
  }),
  one('a list of which no more is wanted asks for no more', {
    answers: [list(page(0, 20), true), list(page(20, 20), true)],
    steps: [{ op: 'sessions.list', params: {}, take: 20 }],
    saw: [{ ok: page(0, 20).map(({ id }) => ({ id })) }],
    sent: [{ path: sessions }],
  }),
  one('an empty list', {
    answers: [list([], false)],
    steps: [{ op: 'sessions.list', params: {} }],
    saw: [{ ok: [] }],
    sent: [{ path: sessions }],
  }),
  one('an empty page that promises more ends the list', {
    answers: [list(page(0, 2), true), list([], true), list([], true)],
    steps: [{ op: 'sessions.list', params: {} }],
    saw: [{ ok: [{ id: 'sess_0' }, { id: 'sess_1' }] }],
    sent: [{}, { path: `${sessions}?after=sess_1` }],
  }),
  one('a page that fails in the middle is tried again', {
    answers: [list(page(0, 2), true), { drop: 'reset' }, list(page(2, 1), false)],
    steps: [{ op: 'sessions.list', params: {} }],
    saw: [{ ok: [{ id: 'sess_0' }, { id: 'sess_1' }, { id: 'sess_2' }] }],
  }),
  one('the balance, exact to 2^53', {
    answers: [{ json: balance() }],
    steps: [{ op: 'billing.balance' }],
    saw: [{ ok: balance() }],
    sent: [{ path: '/api/billing/balance' }],
  }),
  one('transactions, and usage', {
    answers: [
      list(
        [
          {
            id: 'txn_1',
            object: 'billing.transaction',
            type: 'charge',
            amount: -17,
            balance_after: 983,
          },
        ],
        false,
      ),
      list(
        [{ object: 'billing.usage', start: 1, end: 2, requests: 3, cost: 4, model: 'demo' }],
        false,
      ),
    ],
    steps: [
      { op: 'billing.transactions', params: { limit: 5 } },
      {
        op: 'billing.usage',
        params: { from: 1795200000, to: 1795203600, bucket: 'hour', group_by: 'model' },
      },
    ],
    saw: [{ ok: [{ amount: -17, balance_after: 983 }] }, { ok: [{ requests: 3, cost: 4 }] }],
    sent: [
      { path: '/api/billing/transactions?limit=5' },
      {
        path: listed(
          { from: '1795200000', to: '1795203600', bucket: 'hour', group_by: 'model' },
          '/api/billing/usage',
        ),
      },
    ],
  }),
  one('models, whose names may have a slash', {
    answers: [
      list([{ id: 'org/model', object: 'model', owned_by: 'x' }], false),
      { json: { id: 'org/model', object: 'model' } },
    ],
    steps: [{ op: 'models.list' }, { op: 'models.retrieve', id: 'org/model' }],
    saw: [{ ok: [{ id: 'org/model' }] }, { ok: { id: 'org/model' } }],
    sent: [{ path: '/v1/models' }, { path: '/v1/models/org%2Fmodel' }],
  }),
  one('files: describe, list, delete', {
    answers: [{ json: fileObject() }, list([fileObject()], false), { status: 204 }],
    steps: [
      { op: 'files.retrieve', id: 'file_1' },
      { op: 'files.list', params: { session_id: session } },
      { op: 'files.delete', id: 'file_1' },
    ],
    saw: [{ ok: fileObject() }, { ok: [fileObject()] }, { ok: null, error: null }],
    sent: [
      { path: '/api/files/file_1/metadata' },
      { path: `/api/files?session_id=${session}` },
      { method: 'DELETE', path: '/api/files/file_1' },
    ],
  }),
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
        { filename: '报告 “2026”.txt', type: 'text/plain', ...whole },
      ])
      rises(steps[0], content.length)
    },
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
  one('a download, whole, with its type and name', {
    answers: [part(0, undefined)],
    steps: [download],
    saw: [{ ok: { ...whole, content_type: 'application/pdf', filename: '报告.pdf' } }],
    check: ({ steps }) => rises(steps[0], content.length),
  }),
  each('a download that is cut goes on where it was', ['fin', 'reset'] as const, (end) => ({
    answers: [part(0, 50_000, { end }), { ...part(50_000, undefined), on: 'GET' }],
    steps: [download],
    check({ sent, steps }) {
      assert.equal(sent.length, 2)
      assert.equal(sent[1]?.headers['if-range'], head.etag)
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
      part(0, undefined, { headers: { ...head, etag: '"another"' } }),
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
  one('an earlier download goes on', {
    answers: [part(100_000, undefined)],
    steps: [{ ...download, start: 100_000, etag: head.etag }],
    saw: [{ ok: { bytes: content.length - 100_000, sha256: hashOf(content.subarray(100_000)) } }],
    sent: [{ headers: { range: 'bytes=100000-', 'if-range': head.etag } }],
  }),
  one('an earlier download whose file has changed does not', {
    answers: [part(0, undefined)],
    steps: [{ ...download, start: 100_000, etag: '"old"' }],
    saw: [{ error: { class: 'IncompleteStreamError' } }],
  }),
  one('a download that is left closes its connection', {
    answers: [part(0, 50_000, { end: 'open' })],
    steps: [{ ...download, take: 1000 }],
    sent: [{}],
    eventually: ({ sent }) => sent[0]?.closedEarly === true,
  }),
  one('a file that is not there', {
    answers: [refuse({ status: 404, type: 'not_found_error', code: 'file_not_found' })],
    steps: [download],
    saw: [{ error: { class: 'NotFoundError', code: 'file_not_found' } }],
  }),
]

function parts() {
  return [
    { type: 'text', text: 'What is this?' },
    { type: 'file', file: { file_id: 'file_1' } },
  ]
}

function balance(): Json {
  return {
    object: 'billing.balance',
    unit: 'token',
    balance: 9007199254740992 - 1,
    reserved: 1200,
    available: 9007199254739791,
    granted: 9007199254740991,
    spent: 0,
    updated_at: 1795200000,
  }
}

/** The same query in any order. */
function listed(query: Readonly<Record<string, string | undefined>>, path = sessions) {
  const expected = Object.entries(query).filter(([, value]) => value !== undefined)
  return (came: string) => {
    const url = new URL(came, 'http://any')
    const same = expected.every(([name, value]) => url.searchParams.get(name) === value)
    return url.pathname === path && same && [...url.searchParams].length === expected.length
  }
}

function rises(step: Json | undefined, total: number): void {
  const { progress } = (step?.ok ?? { progress: [] }) as { progress: readonly number[] }
  assert.ok(progress.length > 0, 'there was progress')
  for (const [i, bytes] of progress.entries()) assert.ok(i === 0 || bytes > (progress[i - 1] ?? 0))
  assert.equal(progress.at(-1), total)
}
