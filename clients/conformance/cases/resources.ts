// Sessions, messages, files, billing, models: what is requested, what is returned, and lists until their last page.

import { one } from '../case.ts'
import type { Case, Json } from '../case.ts'
import {
  fileObject,
  list,
  messageObject,
  messagePath,
  sendPath,
  session,
  sessionObject,
} from '../transcript.ts'

const sessions = '/api/chat/sessions'

/** What the gateway says of a model in fields of its own. */
const told = {
  price: { input: 0.07, output: 4, cached_input: 0.035, request: 12 },
  context_window: 32_768,
  max_output_tokens: 2048,
  accepts: ['text', 'image'],
  endpoints: ['chat', 'embeddings'],
}

function page(from: number, count: number): readonly Json[] {
  return Array.from({ length: count }, (_, i) => sessionObject(`sess_${from + i}`))
}

const narrowed = { from: 1795200000, to: 1795203600, model: 'org/model', key: 'key_1' }
const narrowedQuery = { ...narrowed, from: '1795200000', to: '1795203600' }

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
            owed: 5,
            implausible: 6,
            waived: 7,
            cut: true,
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
    saw: [
      { ok: [{ amount: -17, balance_after: 983, owed: 5, implausible: 6, waived: 7, cut: true }] },
      { ok: [{ requests: 3, cost: 4 }] },
    ],
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
  one('transactions and usage that are narrowed', {
    answers: [list([], false), list([], false)],
    steps: [
      { op: 'billing.transactions', params: { ...narrowed, type: 'topup', reference: 'pay/1 ü' } },
      { op: 'billing.usage', params: narrowed },
    ],
    saw: [{ ok: [] }, { ok: [] }],
    sent: [
      {
        path: listed(
          { ...narrowedQuery, type: 'topup', reference: 'pay/1 ü' },
          '/api/billing/transactions',
        ),
      },
      { path: listed(narrowedQuery, '/api/billing/usage') },
    ],
  }),
  one('a page without rows is not the end of a list that has more', {
    answers: [
      list([], true, 'txn_9'),
      list([{ id: 'txn_5', object: 'billing.transaction' }], true, 'txn_4'),
      list([], true, 'txn_2'),
      list([{ id: 'txn_1', object: 'billing.transaction' }], false),
    ],
    steps: [{ op: 'billing.transactions', params: { type: 'topup' } }],
    saw: [{ ok: [{ id: 'txn_5' }, { id: 'txn_1' }] }],
    sent: [undefined, 'txn_9', 'txn_4', 'txn_2'].map((after) => ({
      path: listed({ type: 'topup', after }, '/api/billing/transactions'),
    })),
  }),
  one('models, whose names may have a slash', {
    answers: [
      list([{ id: 'org/model', object: 'model', owned_by: 'x' }], false),
      { json: { id: 'org/model', object: 'model', ...told } },
    ],
    steps: [{ op: 'models.list' }, { op: 'models.retrieve', id: 'org/model' }],
    saw: [{ ok: [{ id: 'org/model' }] }, { ok: { id: 'org/model', ...told } }],
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
    owed: 7,
    updated_at: 1795200000,
  }
}

/** Matches the same query in any order. */
function listed(query: Readonly<Record<string, string | undefined>>, path = sessions) {
  const expected = Object.entries(query).filter(([, value]) => value !== undefined)
  return (came: string) => {
    const url = new URL(came, 'http://any')
    const same = expected.every(([name, value]) => url.searchParams.get(name) === value)
    return url.pathname === path && same && [...url.searchParams].length === expected.length
  }
}
