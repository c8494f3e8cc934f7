// Who stops an answer, and what its reader is told: whatever becomes of the call that stopped it, and of the connection.

import assert from 'node:assert/strict'
import { one } from '../case.ts'
import type { Case } from '../case.ts'
import {
  block,
  errorBody,
  messageObject,
  messagePath,
  overloaded,
  refuse,
  rest,
  sessionStream,
  streamPath,
  talk,
  texts,
} from '../transcript.ts'
import { send } from './steps.ts'

const cancel = { after: 1, step: { op: 'stream.cancel' } }
const cancelPath = `POST ${messagePath}/cancel`

export const cancels: readonly Case[] = [
  one('a cancel whose answer is lost may have come: the end it brings is no error', {
    client: { max_retries: 0 },
    answers: [
      sessionStream([...talk().slice(0, 1), { requests: 2 }, ...talk().slice(1, 2), terminal(2)]),
      { on: cancelPath, drop: 'reset' },
    ],
    steps: [{ ...send, during: [cancel] }],
    saw: [{ ok: { chunks: ['Hello', ', '], during: [{ error: { class: 'ConnectionError' } }] } }],
  }),
  one('a cancel that is refused stopped nothing', {
    client: { max_retries: 0 },
    answers: [
      sessionStream([...talk().slice(0, 1), { requests: 2 }, ...talk().slice(1, 2), terminal(2)]),
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
      sessionStream([...rest(0).slice(0, 1), { requests: 3 }, terminal(2)]),
      { on: cancelPath, json: messageObject({ status: 'cancelled' }) },
    ],
    steps: [{ ...send, during: [{ ...cancel, after: 2 }] }],
    saw: [{ ok: { chunks: ['Hello', ', '] } }],
  }),
  one('a resume waits as long as it is told', {
    answers: [
      sessionStream(talk().slice(0, 2), { end: 'fin' }),
      refuse(overloaded, { 'retry-after': '7' }),
      sessionStream(rest(1)),
    ],
    steps: [send],
    saw: [{ ok: { chunks: texts } }],
    check({ waits: [first = -1, ...others] }) {
      assert.ok(first >= 0 && first <= 500, `waited ${first}`)
      assert.deepEqual(others, [7000])
    },
  }),
]

function terminal(number: number): string {
  const refusal = { type: 'cancelled_error', code: 'message_cancelled' }
  return block(JSON.stringify(errorBody(refusal)), number)
}
