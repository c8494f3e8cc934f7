// Who may stop an answer, and what its reader is told, however the cancelling call and the connection end.

import { one } from '../case.ts'
import type { Case } from '../case.ts'
import {
  cancelled,
  errorBody,
  messageObject,
  messagePath,
  overloaded,
  refuse,
  rest,
  sessionStream,
  streamPath,
  talk,
} from '../transcript.ts'
import { send } from './steps.ts'

const cancel = { after: 1, step: { op: 'stream.cancel' } }
const cancelPath = `POST ${messagePath}/cancel`
/** The stream ends as cancelled when a second request has come. */
const stopped = sessionStream([
  ...talk().slice(0, 1),
  { requests: 2 },
  ...talk().slice(1, 2),
  cancelled,
])

export const cancels: readonly Case[] = [
  one('cancel is the server’s: the loop goes on to the end, which is no error', {
    answers: [
      stopped,
      { on: cancelPath, json: messageObject({ status: 'cancelled' }) },
      {
        on: `GET ${messagePath}`,
        json: messageObject({ status: 'cancelled', content: 'Hello, ' }),
      },
    ],
    steps: [{ ...send, final: true, during: [cancel] }],
    saw: [{ ok: { chunks: ['Hello', ', '], final: { status: 'cancelled', content: 'Hello, ' } } }],
    sent: [{}, { method: 'POST', path: `${messagePath}/cancel` }, { path: messagePath }],
  }),
  one('cancelled by somebody else is an error', {
    answers: [sessionStream([...talk().slice(0, 2), cancelled])],
    steps: [send],
    saw: [{ error: { class: 'APIError', code: 'message_cancelled', partial_text: 'Hello, ' } }],
  }),
  one('a cancel whose answer is lost may have come: the end it brings is no error', {
    client: { max_retries: 0 },
    answers: [stopped, { on: cancelPath, drop: 'reset' }],
    steps: [{ ...send, during: [cancel] }],
    saw: [{ ok: { chunks: ['Hello', ', '], during: [{ error: { class: 'ConnectionError' } }] } }],
  }),
  one('a cancel that the server failed at may have come', {
    client: { max_retries: 0 },
    answers: [stopped, { on: cancelPath, ...refuse(overloaded) }],
    steps: [{ ...send, during: [cancel] }],
    saw: [{ ok: { chunks: ['Hello', ', '], during: [{ error: { class: 'ServerError' } }] } }],
  }),
  one('a second cancel takes nothing back', {
    client: { max_retries: 0 },
    answers: [
      stopped,
      { on: cancelPath, ...refuse(overloaded) },
      { on: cancelPath, status: 403, json: errorBody({ type: 'permission_error', code: 'x' }) },
    ],
    steps: [{ ...send, during: [cancel, cancel] }],
    saw: [{ ok: { chunks: ['Hello', ', '] } }],
  }),
  one('a cancel that is refused stopped nothing', {
    client: { max_retries: 0 },
    answers: [
      stopped,
      { on: cancelPath, status: 403, json: errorBody({ type: 'permission_error', code: 'x' }) },
    ],
    steps: [{ ...send, during: [cancel] }],
    saw: [
      {
        error: { class: 'APIError', code: 'message_cancelled' },
        during: [{ error: { class: 'PermissionDeniedError' } }],
      },
    ],
  }),
  one('204 on a message that this stream cancelled is its end', {
    answers: [
      sessionStream([...talk().slice(0, 1), { requests: 2 }, ...talk().slice(1, 2)], {
        end: 'fin',
      }),
      { on: cancelPath, json: messageObject({ status: 'cancelled' }) },
      { on: `GET ${streamPath}`, status: 204 },
      { on: `GET ${messagePath}`, json: messageObject({ status: 'cancelled' }) },
    ],
    steps: [{ ...send, during: [cancel] }],
    saw: [{ ok: { chunks: ['Hello', ', '] } }],
  }),
  one('a cancel while it is read on', {
    answers: [
      sessionStream(talk().slice(0, 1), { end: 'fin' }),
      sessionStream([...rest(0).slice(0, 1), { requests: 3 }, cancelled]),
      { on: cancelPath, json: messageObject({ status: 'cancelled' }) },
    ],
    steps: [{ ...send, during: [{ ...cancel, after: 2 }] }],
    saw: [{ ok: { chunks: ['Hello', ', '] } }],
  }),
]
