// How streams end: by an error from the server, by a cut after which nothing can be resumed, and with the final
// message. came of it.

import assert from 'node:assert/strict'
import { each, one } from '../case.ts'
import type { Case } from '../case.ts'
import {
  block,
  messageObject,
  messagePath,
  plain,
  plainStream,
  rest,
  retry,
  sessionStream,
  streamPath,
  talk,
  terminal,
  texts,
  whole,
} from '../transcript.ts'
import { chat, idle, resumed, send } from './steps.ts'

export const ends: readonly Case[] = [
  each('a chat can’t be read on, and says so', ['whole', 'fin', 'reset'] as const, (end) => ({
    answers: [plainStream(plain().slice(0, 2), { end })],
    steps: [chat],
    saw: [{ error: { class: 'IncompleteStreamError', message: /resum/i } }],
    sent: [{}],
    check({ steps }) {
      const [step] = steps as readonly {
        chunks: readonly string[]
        error: { partial_text: string | null }
      }[]
      // A reset may overtake what was sent before it.
      assert.equal(step?.error.partial_text ?? '', step?.chunks.join(''))
      if (end !== 'reset') assert.deepEqual(step?.chunks, ['Hello', ', '])
    },
  })),
  one('a chat that stays idle is incomplete', {
    client: idle,
    answers: [plainStream(plain().slice(0, 2), { end: 'open' })],
    steps: [chat],
    saw: [{ error: { class: 'IncompleteStreamError', partial_text: 'Hello, ' } }],
    sent: [{}],
    eventually: ({ sent }) => sent[0]?.closedEarly === true,
  }),
  each('an error frame is the error that its type says', errorTypes(), ([type, name]) => ({
    answers: [sessionStream([...talk().slice(0, 2), terminal(type, 'some_code')])],
    steps: [send],
    saw: [
      {
        error: {
          class: name,
          status: null,
          type,
          code: 'some_code',
          request_id: 'req_body',
          partial_text: 'Hello, ',
        },
        chunks: ['Hello', ', '],
        last_event_id: 'msg_1:2',
      },
    ],
    sent: [{}],
  })),
  each(
    'a backend’s own error is told as it came',
    [
      '{"error":{"message":"CUDA out of memory","code":500}}',
      '{"error":"CUDA out of memory"}',
      '{"id":"c","choices":[],"error":{"message":"CUDA out of memory"}}',
    ],
    (data) => ({
      answers: [plainStream([...plain().slice(0, 1), block(data)])],
      steps: [chat],
      saw: [
        {
          error: {
            class: 'APIError',
            status: null,
            message: /CUDA out of memory/,
            partial_text: 'Hello',
          },
        },
      ],
      sent: [{}],
    }),
  ),
  one('an error before the first chunk', {
    answers: [sessionStream([retry + terminal('server_error', 'internal_error', 0)])],
    steps: [send],
    saw: [{ error: { class: 'ServerError' }, chunks: [] }],
  }),
  one('the final message has status, usage and cost', {
    answers: [sessionStream(talk()), { on: `GET ${messagePath}`, json: messageObject() }],
    steps: [{ ...send, final: true }],
    saw: [{ ok: { chunks: texts, final: messageObject() } }],
    sent: [{}, { path: messagePath, method: 'GET' }],
  }),
  one('the final message without a loop reads the stream first', {
    answers: [sessionStream(talk()), { on: `GET ${messagePath}`, json: messageObject() }],
    steps: [{ ...send, leave_after: 0, final: true }],
    saw: [{ ok: { chunks: [], final: { content: whole, cost: 17 } } }],
    sent: [{}, { path: messagePath }],
  }),
  one('204 on a message that is complete is its end', {
    ...resumed({ status: 204 }, { on: `GET ${messagePath}`, json: messageObject() }),
    saw: [{ ok: { chunks: ['Hello', ', '] } }],
    sent: [{}, { path: streamPath }, { path: messagePath }],
  }),
  one('204 on one that is not is no success', {
    ...resumed(
      { status: 204 },
      { on: `GET ${messagePath}`, json: messageObject({ status: 'incomplete' }) },
    ),
    saw: [{ error: { class: 'IncompleteStreamError', partial_text: 'Hello, ' } }],
  }),
  one('204 on a message that somebody else cancelled is no success', {
    ...resumed(
      { status: 204 },
      { on: `GET ${messagePath}`, json: messageObject({ status: 'cancelled' }) },
    ),
    saw: [{ error: { class: 'IncompleteStreamError', partial_text: 'Hello, ' } }],
  }),
  one('204 on a message that can’t be read is no success', {
    // Some HTTP libraries send the request again by themselves.
    ...resumed({ status: 204 }, { drop: 'reset' }, { drop: 'reset' }),
    client: { max_retries: 0 },
    saw: [{ error: { class: 'IncompleteStreamError', partial_text: 'Hello, ' } }],
  }),
  one('an error that comes after a resume', {
    ...resumed(
      sessionStream([...rest(1).slice(0, 1), terminal('upstream_error', 'upstream_incomplete', 3)]),
    ),
    saw: [
      {
        error: {
          class: 'ServerError',
          code: 'upstream_incomplete',
          request_id: 'req_body',
          partial_text: 'Hello, wörld',
        },
        last_event_id: 'msg_1:3',
      },
    ],
    sent: [{}, {}],
  }),
  one('the final message of a stream that was cut', {
    answers: [
      sessionStream(talk().slice(0, 4), { end: 'reset' }),
      { on: `GET ${streamPath}`, ...sessionStream(talk()) },
      { on: `GET ${messagePath}`, json: messageObject() },
    ],
    steps: [{ ...send, final: true }],
    saw: [{ ok: { chunks: texts, final: { content: whole } } }],
  }),
]

function errorTypes(): readonly (readonly [string, string])[] {
  return [
    ['authentication_error', 'AuthenticationError'],
    ['billing_error', 'InsufficientBalanceError'],
    ['permission_error', 'PermissionDeniedError'],
    ['not_found_error', 'NotFoundError'],
    ['gone_error', 'NotFoundError'],
    ['conflict_error', 'ConflictError'],
    ['rate_limit_error', 'RateLimitError'],
    ['invalid_request_error', 'BadRequestError'],
    ['request_too_large', 'BadRequestError'],
    ['server_error', 'ServerError'],
    ['upstream_error', 'ServerError'],
    ['overloaded_error', 'ServerError'],
    ['timeout_error', 'ServerError'],
    ['cancelled_error', 'APIError'],
    ['unheard_of_error', 'APIError'],
  ]
}
