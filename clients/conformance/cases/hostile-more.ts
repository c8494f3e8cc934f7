// More of servers at their worst: what they send back of the key, lists without an end.

import { each, key, one } from '../case.ts'
import type { Case, Step } from '../case.ts'
import type { Answer } from '../server.ts'
import { errorBody, list as page, session, sessionObject } from '../transcript.ts'

const chat: Step = { op: 'chat.stream', body: { model: 'demo', messages: [] } }
const content: Step = { op: 'files.content', id: 'file_1' }

const echoes: readonly (readonly [Step, Answer])[] = [
  [chat, { status: 403, headers: { 'x-request-id': key }, json: {} }],
  [chat, { status: 403, headers: { 'x-request-id': `Bearer ${key}` } }],
  [chat, { headers: { 'content-type': `text/${key}` }, body: ['Hi'] }],
  [content, { status: 302, headers: { location: `ftp://${key}/` } }],
]

export const hostileMore: readonly Case[] = [
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
  one('a list that goes on where it was is an error, not without an end', {
    answers: Array.from({ length: 4 }, () => page([sessionObject('sess_1')], true)),
    steps: [{ op: 'sessions.list', params: {} }],
    saw: [{ error: { class: 'TollgateError' } }],
    sent: [{}, {}],
  }),
]
