// What is tried again and what is not, how long the client waits, and that repeated attempts are one call.

import assert from 'node:assert/strict'
import { each, one, row } from '../case.ts'
import type { Case, Run, Step } from '../case.ts'
import type { Answer } from '../server.ts'
import {
  errorBody,
  fileObject,
  messageObject,
  overloaded,
  plain,
  plainStream,
  refuse,
  session,
  sessionObject,
  sessionStream,
  talk,
  texts,
} from '../transcript.ts'
import type { Refusal } from '../transcript.ts'
import { chat, idle, list, models, send } from './steps.ts'

const create: Step = { op: 'sessions.create', params: { title: 'T' } }
const upload: Step = { op: 'files.upload', session_id: session, filename: 'a.txt', text: 'hello' }
const busy: Refusal = { status: 409, type: 'conflict_error', code: 'session_busy' }
const inProgress: Refusal = { ...busy, code: 'idempotency_in_progress' }
const bad: Refusal = { status: 400, type: 'invalid_request_error', code: 'invalid_parameter' }
const late: Refusal = { status: 504, type: 'timeout_error', code: 'upstream_timeout' }
const once: Step = { op: 'chat.create', body: chat.body }
const whole: Step = { op: 'messages.send', session_id: session, content: 'Hi' }
/** Calls that make the backend generate, with and without a stream. */
const generating: readonly (readonly [Step, Answer])[] = [
  [chat, plainStream(plain())],
  [send, sessionStream(talk())],
  [once, { json: { id: 'chatcmpl-1', object: 'chat.completion', choices: [] } }],
  [whole, { json: messageObject() }],
]

/** Refused this many times and then answered: compares the wait before each attempt. */
function waiting(
  headers: Readonly<Record<string, string>>,
  check: (waits: readonly number[]) => void,
): Run {
  return {
    answers: [refuse(overloaded, headers), models],
    steps: [list],
    saw: [{ ok: [] }],
    check: ({ waits }) => check(waits),
  }
}

export const retries: readonly Case[] = [
  each('408, 429 and 5xx are tried again', [408, 429, 500, 502, 503, 504, 599], (status) => ({
    answers: [refuse({ ...overloaded, status }), refuse({ ...overloaded, status }), models],
    steps: [list],
    saw: [{ ok: [] }],
    sent: [{}, {}, {}],
  })),
  each(
    'other errors are not',
    [400, 401, 402, 403, 404, 405, 410, 413, 415, 422, 431],
    (status) => ({
      answers: [refuse({ ...bad, status })],
      steps: [list],
      saw: [{ error: { status } }],
      sent: [{}],
    }),
  ),
  one('409 idempotency_in_progress is tried again', {
    answers: [refuse(inProgress, { 'retry-after': '1' }), { json: sessionObject() }],
    steps: [create],
    saw: [{ ok: { id: session } }],
    sent: [{}, {}],
    check: ({ waits }) => assert.deepEqual(waits, [1000]),
  }),
  one('409 session_busy is not', {
    answers: [refuse(busy)],
    steps: [send],
    saw: [{ error: { class: 'ConflictError', code: 'session_busy' } }],
    sent: [{}],
  }),
  row(
    'X-Should-Retry: false ends it, whatever the status and the call',
    [408, 429, 500, 503, 504].flatMap((status) =>
      [list, create, upload, chat, send, once, whole].map((step) => [status, step] as const),
    ),
    ([status, step]) => ({
      answers: [refuse({ ...overloaded, status }, { 'x-should-retry': 'false' })],
      steps: [step],
      saw: [{ error: { status } }],
      sent: [{}],
    }),
  ),
  one('X-Should-Retry: true is enough', {
    answers: [refuse(bad, { 'x-should-retry': 'true' }), models],
    steps: [list],
    saw: [{ ok: [] }],
    sent: [{}, {}],
  }),
  row(
    '504 of what is generated would be paid for twice: it is not tried again',
    generating,
    ([step]) => ({
      answers: [refuse(late, { 'retry-after': '1' })],
      steps: [step],
      saw: [{ error: { class: 'ServerError', status: 504, code: 'upstream_timeout' } }],
      sent: [{}],
    }),
  ),
  row('… unless the server says so', generating, ([step, answer]) => ({
    answers: [refuse(late, { 'x-should-retry': 'true' }), answer],
    steps: [step],
    saw: [{ error: undefined }],
    sent: [{}, {}],
  })),
  row('any other 5xx of it is', generating, ([step, answer]) => ({
    answers: [refuse({ ...late, status: 502 }), answer],
    steps: [step],
    saw: [{ error: undefined }],
    sent: [{}, {}],
  })),
  row('504 of what generates nothing is', [create, upload], (step) => ({
    answers: [
      refuse(late),
      { status: 201, json: step === create ? sessionObject() : fileObject() },
    ],
    steps: [step],
    saw: [{ error: undefined }],
    sent: [{}, {}],
  })),
  one('twice, unless told otherwise; the last error is the call’s', {
    answers: [500, 502, 504].map((status) => refuse({ ...overloaded, status })),
    steps: [list],
    saw: [{ error: { status: 504 } }],
    sent: [{}, {}, {}],
  }),
  each('as often as told', [0, 1, 5], (max_retries) => ({
    client: { max_retries },
    answers: Array.from({ length: 7 }, () => refuse(overloaded)),
    steps: [list],
    saw: [{ error: { status: 503 } }],
    sent: Array.from({ length: max_retries + 1 }, () => ({})),
  })),
  one('a refused connection is tried again', {
    client: { base_url: '{closed}' },
    steps: [list],
    saw: [{ error: { class: 'ConnectionError' } }],
    check: ({ waits }) => assert.equal(waits.length, 2),
  }),
  each(
    'a connection lost before the answer: the call is sent again',
    ['fin', 'reset'] as const,
    (drop) => ({
      answers: [{ drop }, { json: sessionObject() }],
      steps: [create],
      saw: [{ ok: { id: session } }],
      sent: [{}, {}],
    }),
  ),
  each(
    'a message whose answer is lost is sent again, as the same call',
    ['fin', 'reset'] as const,
    (drop) => ({
      answers: [{ drop }, sessionStream(talk())],
      steps: [send],
      saw: [{ ok: { chunks: texts } }],
      sent: [{ json: { content: 'Hi' } }, { json: { content: 'Hi' } }],
      check: ({ sent }) => sameKey(sent.map(({ headers }) => headers['idempotency-key'])),
    }),
  ),
  each('a chat whose answer is lost is not paid for twice', ['fin', 'reset'] as const, (drop) => ({
    answers: [{ drop }, plainStream(plain())],
    steps: [chat],
    saw: [{ error: { class: 'ConnectionError' } }],
    sent: [{}],
  })),
  one('nor one whose answer does not come in time', {
    client: { idle_timeout_ms: 300 },
    answers: [{ drop: 'open' }, plainStream(plain())],
    steps: [chat],
    saw: [{ error: { class: 'TimeoutError' } }],
    sent: [{}],
  }),
  one('a chat that nobody was reached for is tried again', {
    client: { base_url: '{closed}' },
    steps: [chat],
    saw: [{ error: { class: 'ConnectionError' } }],
    check: ({ waits }) => assert.equal(waits.length, 2),
  }),
  one('a chat that was refused is tried again', {
    answers: [refuse(overloaded), plainStream(plain())],
    steps: [chat],
    saw: [{ ok: { chunks: texts } }],
    sent: [{}, {}],
  }),
  one('an answer that does not come in time is asked for again', {
    client: { ...idle, max_retries: 9 },
    // On a very busy machine the second answer is late, too.
    answers: [{ drop: 'open' }, ...Array.from({ length: 9 }, () => models)],
    steps: [list],
    saw: [{ ok: [] }],
    check: ({ sent }) => assert.ok(sent.length > 1, `${sent.length} were sent`),
  }),
  one('an idempotency key is one call’s: the same at each attempt, another for the next', {
    answers: [
      refuse(overloaded),
      refuse(overloaded),
      { json: sessionObject() },
      { json: sessionObject() },
    ],
    steps: [create, create],
    saw: [{ ok: {} }, { ok: {} }],
    check({ sent }) {
      const keys = sent.map(({ headers }) => headers['idempotency-key'])
      sameKey(keys.slice(0, 3))
      assert.match(keys[3] ?? '', /^[!-~]{16,255}$/)
      assert.notEqual(keys[3], keys[0])
    },
  }),
  one('the caller’s own idempotency key is used', {
    answers: [sessionStream(talk())],
    steps: [{ ...send, idempotency_key: 'order-7' }],
    sent: [{ headers: { 'idempotency-key': 'order-7' } }],
  }),
  one('reading calls, cancel and uploads carry none', {
    answers: [models, { json: messageObject() }, { json: fileObject(), status: 201 }],
    steps: [list, { op: 'messages.cancel', session_id: session, id: 'msg_1' }, upload],
    saw: [{ ok: [] }, { ok: {} }, { ok: {} }],
    sent: [1, 2, 3].map(() => ({ headers: { 'idempotency-key': undefined } })),
  }),
  one('the same call that still runs, then its answer as it was', {
    answers: [
      { ...refuse(inProgress, { 'retry-after': '1' }) },
      sessionStream(talk(), { headers: { 'idempotent-replayed': 'true' } }),
    ],
    steps: [send],
    saw: [{ ok: { chunks: texts, message_id: 'msg_1' } }],
    sent: [{}, {}],
  }),
  one(
    'retry-after-ms wins over Retry-After',
    waiting({ 'retry-after-ms': '1500', 'retry-after': '9' }, (waits) =>
      assert.deepEqual(waits, [1500]),
    ),
  ),
  each(
    'Retry-After in seconds',
    [
      ['2', 2000],
      ['0.25', 250],
      ['0', 0],
    ] as const,
    ([value, ms]) => waiting({ 'retry-after': value }, (waits) => assert.deepEqual(waits, [ms])),
  ),
  each('Retry-After as a date', [5, 20], (seconds) =>
    waiting(
      { 'retry-after': new Date(Math.ceil(Date.now() / 1000 + seconds + 30) * 1000).toUTCString() },
      ([ms = 0]) =>
        // The client was started some time after the date was made.
        assert.ok(ms > 0 && ms <= (seconds + 31) * 1000, `waited ${ms}`),
    ),
  ),
  each<Readonly<Record<string, string>>>(
    'never longer than a minute',
    [
      { 'retry-after': '3600' },
      { 'retry-after-ms': '86400000' },
      { 'retry-after': 'Fri, 01 Jan 2100 00:00:00 GMT' },
    ],
    (headers) => waiting(headers, (waits) => assert.deepEqual(waits, [60_000])),
  ),
  each(
    'a Retry-After that makes no sense is as if absent',
    ['soon', '-5', 'NaN', '1e999', '0x10', '', 'Sun, 06 Nov 1994 08:49:37 GMT', '12 seconds'],
    (value) =>
      waiting({ 'retry-after': value }, ([ms = -1]) =>
        assert.ok(ms >= 0 && ms <= 500, `waited ${ms}`),
      ),
  ),
  one('the waits grow to eight seconds, with jitter', {
    client: { max_retries: 40 },
    answers: Array.from({ length: 41 }, () => refuse(overloaded)),
    steps: [list],
    check({ waits }) {
      assert.equal(waits.length, 40)
      for (const [n, ms] of waits.entries()) {
        assert.ok(ms >= 0 && ms <= Math.min(8000, 500 * 2 ** n), `wait ${n}: ${ms}`)
      }
      const late = waits.slice(4)
      // Thirty-six random waits from 0 to 8 s are all in one half once in 10^10 runs.
      assert.ok(Math.min(...late) < 4000 && Math.max(...late) > 4000, `${late.join(' ')}`)
    },
  }),
  one('a body is the same at each attempt', {
    answers: [refuse(overloaded), refuse(overloaded), { json: fileObject(), status: 201 }],
    steps: [upload],
    saw: [{ ok: { file: { id: 'file_1' } } }],
    sent: [1, 2, 3].map(() => ({
      form: [
        ['session_id', session],
        ['file', { filename: 'a.txt', bytes: 5, sha256: fileObject().sha256 }],
      ],
    })),
  }),
  one('a source that can’t be read twice is sent once', {
    answers: [refuse(overloaded)],
    steps: [{ op: 'files.upload', session_id: session, filename: 'a.txt', once: 'hello' }],
    saw: [{ error: { class: 'ServerError', status: 503 } }],
    sent: [
      {
        form: [
          ['session_id', session],
          ['file', { bytes: 5 }],
        ],
      },
    ],
  }),
  one('a refusal that is long and cut off is tried again all the same', {
    answers: [
      {
        status: 503,
        headers: { 'content-type': 'application/json', 'content-length': '900' },
        body: [JSON.stringify(errorBody(overloaded))],
        end: 'fin',
      },
      models,
    ],
    steps: [list],
    saw: [{ ok: [] }],
    sent: [{}, {}],
  }),
]

function sameKey(keys: readonly (string | undefined)[]): void {
  assert.match(keys[0] ?? '', /^[!-~]{16,255}$/)
  assert.equal(new Set(keys).size, 1, `keys ${keys.join(', ')}`)
}
