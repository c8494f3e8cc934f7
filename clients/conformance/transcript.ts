// The answers of a gateway, as docs/api.md describes them: session streams, stateless streams, errors, resources.

import { createHash } from 'node:crypto'
import type { Json } from './case.ts'
import type { Answer, Piece } from './server.ts'

export const session = 'sess_1'
const message = 'msg_1'
export const streamPath = `/api/chat/sessions/${session}/messages/${message}/stream`
export const messagePath = `/api/chat/sessions/${session}/messages/${message}`
export const sendPath = `/api/chat/sessions/${session}/messages`

export function chunk(text: string | null, more: Json = {}): Json {
  const delta = text === null ? {} : { content: text }
  return {
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1795200000,
    model: 'demo',
    choices: [{ index: 0, delta, finish_reason: null }],
    ...more,
  }
}

/** One block; it has a number unless it belongs to a stateless stream. */
export function block(data: string, number?: number, event?: string): string {
  const id = number === undefined ? '' : `id: ${message}:${number}\n`
  return `${id}${event === undefined ? '' : `event: ${event}\n`}data: ${data}\n\n`
}

/** The frames of these texts from `from` on, with the numbers that they have in the whole stream. */
export function frames(texts: readonly string[], from = 0): readonly string[] {
  return texts.map((text, i) => block(JSON.stringify(chunk(text)), i)).slice(from)
}

export const texts = ['Hello', ', ', 'wörld', ' – ', '你好', ' 👋🏽', '!'] as const
export const whole = texts.join('')
export const retry = 'retry: 1000\n'

/** All blocks of the answer, with the terminal. */
export function talk(said: readonly string[] = texts): readonly string[] {
  return rest(-1, said)
}

/** The blocks after the one with number `last`, as a resume answers them. */
export function rest(last: number, said: readonly string[] = texts): readonly string[] {
  const [first = '', ...others] = [...frames(said), block('[DONE]', said.length)].slice(last + 1)
  return [retry + first, ...others]
}

export function plain(said: readonly string[] = texts): readonly string[] {
  return [...said.map((text) => block(JSON.stringify(chunk(text)))), block('[DONE]')]
}

const streamHead = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
}

export function sessionStream(body: Iterable<Piece>, more: Partial<Answer> = {}): Answer {
  return {
    body,
    ...more,
    headers: {
      ...streamHead,
      'x-message-id': message,
      'x-user-message-id': 'msg_0',
      'content-location': messagePath,
      location: streamPath,
      ...more.headers,
    },
  }
}

export function plainStream(body: Iterable<Piece>, more: Partial<Answer> = {}): Answer {
  return { body, ...more, headers: { ...streamHead, ...more.headers } }
}

export interface Refusal {
  readonly status: number
  readonly type: string
  readonly code: string
  readonly param?: string
  readonly message?: string
}

export function errorBody({ type, code, param, message: said }: Omit<Refusal, 'status'>): Json {
  const error = { message: said ?? `refused: ${code}`, type, param: param ?? null, code }
  return { error, request_id: 'req_body' }
}

/** The block that ends a session's stream with this error; by default it has the number after two blocks. */
export function terminal(type: string, code: string, number = 2): string {
  return block(JSON.stringify(errorBody({ type, code })), number)
}

export const cancelled = terminal('cancelled_error', 'message_cancelled')

export function refuse(refusal: Refusal, headers: Readonly<Record<string, string>> = {}): Answer {
  return { status: refusal.status, json: errorBody(refusal), headers }
}

export const overloaded: Refusal = {
  status: 503,
  type: 'overloaded_error',
  code: 'upstream_unavailable',
}

export function sessionObject(id = session): Json {
  return {
    id,
    object: 'chat.session',
    created_at: 1795200000,
    updated_at: 1795200000,
    title: null,
    model: 'demo',
    instructions: null,
    metadata: {},
    message_count: 0,
    active_message_id: null,
  }
}

export function messageObject(more: Json = {}): Json {
  return {
    id: message,
    object: 'chat.message',
    session_id: session,
    role: 'assistant',
    content: whole,
    tool_calls: null,
    reasoning: null,
    status: 'completed',
    finish_reason: 'stop',
    model: 'demo',
    usage: { prompt_tokens: 3, completion_tokens: 7, total_tokens: 10, estimated: false },
    cost: 17,
    error: null,
    created_at: 1795200000,
    completed_at: 1795200001,
    ...more,
  }
}

export function fileObject(more: Json = {}): Json {
  return {
    id: 'file_1',
    object: 'file',
    bytes: 5,
    created_at: 1795200000,
    expires_at: null,
    filename: 'a.txt',
    purpose: 'user_data',
    status: 'processed',
    session_id: session,
    content_type: 'text/plain; charset=utf-8',
    sha256: hashOf('hello'),
    ...more,
  }
}

/** `lastId`: where the next page begins, if that is not the last item. */
export function list(items: readonly Json[], hasMore: boolean, lastId?: string): Answer {
  const ids = items.map(({ id }) => id ?? null)
  return {
    json: {
      object: 'list',
      data: items,
      first_id: ids[0] ?? null,
      last_id: lastId ?? ids.at(-1) ?? null,
      has_more: hasMore,
    },
  }
}

export function hashOf(bytes: string | Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** What a driver reports for a stream's texts with `digest`. */
export function digestOf(said: readonly string[]): Json {
  const all = Buffer.from(said.join(''))
  return { count: said.length, bytes: all.length, sha256: hashOf(all) }
}
