// A stream that breaks and is resumed: from where, how often, and after how long; and streams of an earlier process.

import assert from 'node:assert/strict'
import { each, one, row } from '../case.ts'
import type { Case, Plain, Run } from '../case.ts'
import {
  digestOf,
  frames,
  overloaded,
  plainStream,
  refuse,
  rest,
  retry,
  sendPath,
  session,
  sessionStream,
  streamPath,
  talk,
  texts,
} from '../transcript.ts'
import { idle, resumed, send } from './steps.ts'

const bytes = Buffer.from(talk().join(''))
const gone = { status: 410, type: 'gone_error', code: 'stream_expired' }

/** How many whole blocks there are before this byte: the number of the last one is one less. */
function blocksBefore(at: number): number {
  return talk().reduce(
    ({ end, count }, text) => {
      const next = end + Buffer.byteLength(text)
      return { end: next, count: next <= at ? count + 1 : count }
    },
    { end: 0, count: 0 },
  ).count
}

/** The stream is cut at this byte, then resumed after the last whole block. */
function cutAt(at: number): Plain {
  const last = blocksBefore(at) - 1
  const cursor = last < 0 ? undefined : `msg_1:${last}`
  return {
    answers: [sessionStream([bytes.subarray(0, at)], { end: 'fin' }), sessionStream(rest(last))],
    steps: [send],
    saw: [{ ok: { chunks: texts, last_event_id: `msg_1:${texts.length}` } }],
    sent: [{}, { path: streamPath, headers: { 'last-event-id': cursor } }],
  }
}

/** A reset may destroy data that had been sent: then the client saw less, but never more. */
function resetAt(at: number): Run {
  const last = blocksBefore(at) - 1
  return {
    answers: [sessionStream([bytes.subarray(0, at)], { end: 'reset' }), sessionStream(rest(last))],
    steps: [send],
    saw: [{ ok: { chunks: texts, last_event_id: `msg_1:${texts.length}` } }],
    sent: [{}, { path: streamPath }],
    check({ sent }) {
      const cursor = sent[1]?.headers['last-event-id']
      const number = cursor === undefined ? -1 : Number(cursor.replace('msg_1:', ''))
      assert.ok(number <= last, `${cursor} at ${at}`)
    },
  }
}

const boundaries = talk()
  .map((_, i) =>
    Buffer.byteLength(
      talk()
        .slice(0, i + 1)
        .join(''),
    ),
  )
  .slice(0, -1)
const second = { from: boundaries[0] ?? 0, to: boundaries[1] ?? 0 }

/** Each resumed stream brings one more frame and is cut again. */
const crumbs = texts.map((_, i) =>
  sessionStream([retry + (frames(texts)[i] ?? '')], { end: 'fin' }),
)

export const resume: readonly Case[] = [
  row('cut between two frames, read on', boundaries, cutAt),
  each('reset between two frames, read on', boundaries, resetAt),
  row(
    'cut at every byte of a frame, read on',
    Array.from({ length: second.to - second.from - 1 }, (_, i) => second.from + 1 + i),
    cutAt,
  ),
  one('cut before the first event: asked for from the start', {
    answers: [sessionStream(['retry: 10', ''], { end: 'fin' }), sessionStream(talk())],
    steps: [send],
    saw: [{ ok: { chunks: texts } }],
    sent: [
      {},
      {
        method: 'GET',
        path: streamPath,
        headers: { 'last-event-id': undefined, accept: /event-stream/ },
      },
    ],
  }),
  one('an end without [DONE] is a cut', {
    answers: [sessionStream(talk().slice(0, -1)), sessionStream(rest(6))],
    steps: [send],
    saw: [{ ok: { chunks: texts } }],
    sent: [{}, { headers: { 'last-event-id': 'msg_1:6' } }],
  }),
  one('a last event without its empty line is none', {
    answers: [
      sessionStream([...talk().slice(0, 2), (talk()[2] ?? '').slice(0, -1)]),
      sessionStream(rest(1)),
    ],
    steps: [send],
    saw: [{ ok: { chunks: texts } }],
    sent: [{}, { headers: { 'last-event-id': 'msg_1:1' } }],
  }),
  one('frames that come again are dropped', {
    ...resumed(sessionStream(talk())),
    saw: [{ ok: { chunks: texts } }],
  }),
  one('a connection that stays idle is left, and read on', {
    client: idle,
    answers: [sessionStream(talk().slice(0, 2), { end: 'open' }), sessionStream(rest(1))],
    steps: [send],
    saw: [{ ok: { chunks: texts } }],
    sent: [{}, {}],
    eventually: ({ sent }) => sent[0]?.closedEarly === true,
  }),
  one('heartbeats keep a silent connection', {
    client: { idle_timeout_ms: 6000 },
    answers: [
      sessionStream([
        ...talk().slice(0, 2),
        ...Array.from({ length: 24 }, () => [{ pauseMs: 300 }, ':\n']).flat(),
        ...talk().slice(2),
      ]),
    ],
    steps: [send],
    saw: [{ ok: { chunks: texts } }],
    sent: [{}],
  }),
  one('a refusal that the server calls final is the stream’s end', {
    ...resumed(refuse(overloaded, { 'x-should-retry': 'false' })),
    saw: [{ error: { class: 'ServerError', status: 503, partial_text: 'Hello, ' } }],
    sent: [{}, {}],
  }),
  one('504 of a resume is asked again: it generates nothing', {
    ...resumed(refuse({ ...overloaded, status: 504 }), sessionStream(rest(1))),
    saw: [{ ok: { chunks: texts } }],
    sent: [{}, {}, {}],
  }),
  one('a refusal that passes is asked again', {
    ...resumed(
      refuse(overloaded),
      { drop: 'reset' },
      refuse({ ...overloaded, status: 429 }),
      sessionStream(rest(1)),
    ),
    saw: [{ ok: { chunks: texts } }],
    sent: [{}, {}, {}, {}, {}],
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
  each(
    'a refusal that stays ends it, with the text so far',
    [
      ['NotFoundError', { status: 404, type: 'not_found_error', code: 'message_not_found' }],
      ['NotFoundError', gone],
      [
        'AuthenticationError',
        { status: 401, type: 'authentication_error', code: 'api_key_revoked' },
      ],
      [
        'BadRequestError',
        { status: 400, type: 'invalid_request_error', code: 'invalid_last_event_id' },
      ],
    ] as const,
    ([name, refusal]) => ({
      ...resumed(refuse(refusal)),
      saw: [
        {
          error: { class: name, code: refusal.code, partial_text: 'Hello, ' },
          chunks: ['Hello', ', '],
          last_event_id: 'msg_1:1',
        },
      ],
      sent: [{}, {}],
    }),
  ),
  one('five attempts without a new frame, then IncompleteStreamError', {
    ...resumed(...Array.from({ length: 9 }, () => sessionStream([], { end: 'fin' }))),
    saw: [{ error: { class: 'IncompleteStreamError', status: null, partial_text: 'Hello, ' } }],
    sent: [1, 2, 3, 4, 5, 6].map(() => ({})),
    check({ waits }) {
      assert.equal(waits.length, 5)
      for (const [n, ms] of waits.entries()) assert.ok(ms <= 500 * 2 ** n, `wait ${n}: ${ms}`)
    },
  }),
  one('frames that came already are no progress', {
    ...resumed(
      ...Array.from({ length: 9 }, () => sessionStream(talk().slice(0, 2), { end: 'fin' })),
    ),
    saw: [{ error: { class: 'IncompleteStreamError' }, chunks: ['Hello', ', '] }],
    sent: [1, 2, 3, 4, 5, 6].map(() => ({})),
  }),
  one('progress starts the count anew', {
    answers: [
      ...crumbs,
      ...Array.from({ length: 4 }, () => sessionStream([], { end: 'fin' })),
      sessionStream(rest(6)),
    ],
    steps: [send],
    saw: [{ ok: { chunks: texts } }],
    sent: Array.from({ length: texts.length + 5 }, () => ({})),
  }),
  one('a stream of earlier, from where its reader was', {
    answers: [sessionStream(rest(3))],
    steps: [
      {
        op: 'messages.resume',
        session_id: session,
        id: 'msg_1',
        last_event_id: 'msg_1:3',
        report: 'texts',
      },
    ],
    saw: [{ ok: { chunks: texts.slice(4), message_id: 'msg_1' } }],
    sent: [{ method: 'GET', path: streamPath, headers: { 'last-event-id': 'msg_1:3' } }],
  }),
  one('a stream of earlier, from its start', {
    answers: [sessionStream(talk())],
    steps: [{ op: 'messages.resume', session_id: session, id: 'msg_1' }],
    saw: [{ ok: { chunks: digestOf(texts) } }],
    sent: [{ path: streamPath, headers: { 'last-event-id': undefined } }],
  }),
  one('the active stream of a session, cut and read on', {
    answers: [
      sessionStream(talk().slice(0, 2), { end: 'fin', headers: { 'x-message-id': 'msg_1' } }),
      sessionStream(rest(1)),
    ],
    steps: [{ op: 'messages.active', session_id: session, report: 'texts' }],
    saw: [{ ok: { chunks: texts, message_id: 'msg_1' } }],
    sent: [{ method: 'GET', path: `/api/chat/sessions/${session}/stream` }, { path: streamPath }],
  }),
  one('no active stream', {
    answers: [{ status: 204 }],
    steps: [{ op: 'messages.active', session_id: session }],
    check: ({ steps }) => assert.deepEqual(steps[0]?.ok ?? null, null),
  }),
  one('the message id is the events’ where the head has none', {
    answers: [plainStream(talk().slice(0, 2), { end: 'fin' }), sessionStream(rest(1))],
    steps: [send],
    saw: [{ ok: { chunks: texts, message_id: 'msg_1' } }],
    sent: [{ path: sendPath }, { path: streamPath }],
  }),
]
