// Servers that send the key back wherever they can: the client must never show it. `perform` looks for it in every run.

import { each, key, one } from '../case.ts'
import type { Case, Step } from '../case.ts'
import type { Answer } from '../server.ts'
import { block, errorBody, plainStream, session, sessionStream } from '../transcript.ts'
import { chat, send } from './steps.ts'

const content: Step = { op: 'files.content', id: 'file_1' }

const broken = block('{"error":{"message":"CUDA out of memory"}}', 0)

const echoes: readonly (readonly [Step, Answer])[] = [
  [chat, { status: 403, headers: { 'x-request-id': key }, json: {} }],
  [chat, { status: 403, headers: { 'x-request-id': `Bearer ${key}` } }],
  [chat, { headers: { 'content-type': `text/${key}` }, body: ['Hi'] }],
  [chat, plainStream([broken], { headers: { 'x-request-id': key } })],
  [send, sessionStream([broken], { headers: { 'x-request-id': `for ${key}` } })],
  [
    content,
    {
      headers: { 'x-request-id': key, etag: '"1"', 'content-length': '9' },
      body: ['Hi'],
      end: 'fin',
    },
  ],
  [content, { headers: { 'content-encoding': key }, body: ['Hi'] }],
  [content, { status: 302, headers: { location: `ftp://${key}/` } }],
]

export const echoed: readonly Case[] = [
  each('a key that comes back in a header is not shown', echoes, ([step, answer]) => ({
    client: { max_retries: 0 },
    answers: [answer],
    steps: [step],
  })),
  each(
    'a key that comes back in an answer is not shown',
    [{ data: `Bearer ${key}` }, { data: [{ id: 7, headers: { authorization: key } }], [key]: 1 }],
    (json) => ({ answers: [{ json }], steps: [{ op: 'sessions.list', params: {} }] }),
  ),
  one('an error that is the key is not shown', {
    client: { max_retries: 0 },
    answers: [{ status: 400, json: { ...errorBody({ type: key, code: key }), request_id: key } }],
    steps: [{ op: 'sessions.retrieve', id: session }],
    saw: [{ error: { class: 'BadRequestError' } }],
  }),
]
