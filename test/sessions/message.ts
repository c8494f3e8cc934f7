import t from 'tap'
import { parseStored, toPublic } from '../../src/sessions/message.ts'
import type { StoredMessage } from '../../src/sessions/message.ts'

const asked: StoredMessage = {
  id: 'msg_1',
  role: 'user',
  content: 'Hi',
  status: 'completed',
  finish_reason: null,
  model: null,
  usage: null,
  cost: null,
  error: null,
  created_at: 1795200000,
  completed_at: 1795200000,
}

const answered: StoredMessage = {
  ...asked,
  id: 'msg_2',
  role: 'assistant',
  content: null,
  tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'f', arguments: '{"a":' } }],
  reasoning: 'hm',
  status: 'failed',
  finish_reason: 'tool_calls',
  model: 'm',
  usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3, estimated: true },
  cost: 4,
  error: { message: 'gone', type: 'upstream_error', param: null, code: 'upstream_error' },
  hold: 'req_1',
}

void t.test('every field of a message is shown, null if it has no value', async (t) => {
  t.strictSame(toPublic(asked, 'sess_1'), {
    id: 'msg_1',
    object: 'chat.message',
    session_id: 'sess_1',
    role: 'user',
    content: 'Hi',
    tool_calls: null,
    reasoning: null,
    status: 'completed',
    finish_reason: null,
    model: null,
    usage: null,
    cost: null,
    error: null,
    created_at: 1795200000,
    completed_at: 1795200000,
  })
})

void t.test('an answer is shown whole, except for the hold that pays for it', async (t) => {
  const { hold, ...rest } = answered
  t.equal(hold, 'req_1')
  t.strictSame(toPublic(answered, 'sess_1'), {
    ...rest,
    object: 'chat.message',
    session_id: 'sess_1',
  })
})

void t.test('a tool result says which call it answers', async (t) => {
  const result = toPublic({ ...asked, role: 'tool', tool_call_id: 'call_1', name: 'f' }, 'sess_1')
  t.match(result, { role: 'tool', tool_call_id: 'call_1', name: 'f' })
})

const file = {
  file_id: 'file_1',
  kind: 'image',
  bytes: 7,
  content_type: 'image/png',
  filename: 'a.png',
} as const

void t.test('a file is shown by its id and name alone', async (t) => {
  const text = { type: 'text', text: 'look' } as const
  const content = [text, { type: 'file', file: { ...file, detail: 'low' } }] as const
  t.strictSame(toPublic({ ...asked, content }, 'sess_1').content, [
    text,
    { type: 'file', file: { file_id: 'file_1', filename: 'a.png' } },
  ])
})

void t.test('a stored message is read back unchanged', async (t) => {
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } } as const
  const parts: StoredMessage = {
    ...asked,
    content: [{ type: 'text', text: '\0\ud800' }, image, { type: 'file', file }],
  }
  for (const message of [asked, answered, parts]) {
    t.strictSame(parseStored(JSON.stringify(message)), message)
  }
})

void t.test('a row in another format is no message', async (t) => {
  const broken: unknown[] = [
    null,
    7,
    'text',
    [],
    {},
    { ...asked, role: 'system' },
    { ...asked, role: '__proto__' },
    { ...asked, status: 'done' },
    { ...asked, content: 7 },
    { ...asked, content: [{ type: 'file' }] },
    { ...asked, content: [{ type: 'file', file: { file_id: 'file_1' } }] },
    { ...asked, content: [{ type: 'file', file: { ...file, kind: 'film' } }] },
    { ...asked, content: [{ type: 'file', file: { ...file, bytes: '7' } }] },
    { ...asked, content: [{ type: 'file', file: { ...file, detail: 7 } }] },
    { ...asked, content: [null] },
    { ...asked, created_at: '1' },
    { ...asked, usage: {} },
    { ...asked, error: 'no' },
    { ...asked, cost: 0.5 },
    { ...answered, tool_calls: [{ id: 'call_1' }] },
    { ...answered, hold: 7 },
  ]
  for (const value of broken) t.equal(parseStored(JSON.stringify(value)), undefined)
  for (const row of [null, undefined, '', '{', 'nil']) t.equal(parseStored(row), undefined)
})
