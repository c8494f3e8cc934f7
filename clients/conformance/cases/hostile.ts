// Servers and proxies at their worst: what they send may cause an error, but must never cost money, memory or a byte of
// the answer.

import assert from 'node:assert/strict'
import { gzipSync } from 'node:zlib'
import { each, key, one } from '../case.ts'
import type { Case, Json, Step } from '../case.ts'
import {
  block,
  fileObject,
  list as page,
  plain,
  plainStream,
  session,
  sessionObject,
  sessionStream,
  talk,
  texts,
} from '../transcript.ts'
import { chat, idle, list, mebibyte, models, send } from './steps.ts'

const balance: Step = { op: 'billing.balance' }
const json = { 'content-type': 'application/json' }
const head = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n'

/** 320 MiB of spaces, made only when they are needed. */
let packed: Buffer | undefined
const bomb: Iterable<Buffer> = {
  *[Symbol.iterator]() {
    yield (packed ??= gzipSync(Buffer.alloc(320 * mebibyte, ' ')))
  },
}

function endless(piece: string): Iterable<string> {
  return {
    *[Symbol.iterator]() {
      for (let i = 0; i < 2048; i++) yield piece.repeat(Math.ceil(65_536 / piece.length))
    },
  }
}

export const hostile: readonly Case[] = [
  each(
    'a chat that a connection in use before loses is not paid for twice',
    ['fin', 'reset'] as const,
    (drop) => ({
      answers: [models, { on: 'POST', drop }, plainStream(plain()), plainStream(plain())],
      steps: [list, chat],
      saw: [{ ok: [] }, { error: { class: 'ConnectionError' } }],
      sent: [{}, {}],
    }),
  ),
  each(
    'an idempotency key that no header can carry is refused before anything is sent',
    ['a\nb', 'a\r\nX-Evil: 1', 'é', '日本'],
    (idempotency_key) => ({
      answers: [sessionStream(talk())],
      steps: [{ ...send, idempotency_key }],
      saw: [{ error: { class: 'TollgateError' } }],
      sent: [],
      check: ({ waits }) => assert.deepEqual(waits, []),
    }),
  ),
  each(
    'a place in a stream that no header can carry is refused',
    ['m:1\r\nX: y', 'm:\n1'],
    (id) => ({
      answers: [sessionStream(talk())],
      steps: [{ op: 'messages.resume', session_id: session, id: 'msg_1', last_event_id: id }],
      saw: [{ error: { class: 'TollgateError' } }],
      sent: [],
      check: ({ waits }) => assert.deepEqual(waits, []),
    }),
  ),
  one('a stream whose events have no ids is not read on: nothing is given twice', {
    answers: [
      sessionStream(plain().slice(0, 2), { end: 'fin' }),
      ...[1, 2, 3, 4, 5, 6].map(() => sessionStream(plain().slice(0, 3), { end: 'fin' })),
    ],
    steps: [send],
    saw: [{ error: { class: 'IncompleteStreamError' }, chunks: ['Hello', ', '] }],
  }),
  one('a resume that is answered by a page is an error', {
    answers: [
      sessionStream(talk().slice(0, 2), { end: 'fin' }),
      { headers: { 'content-type': 'text/html' }, body: ['<html>Sign in</html>'] },
    ],
    steps: [send],
    saw: [{ error: { class: 'TollgateError', partial_text: 'Hello, ' }, chunks: ['Hello', ', '] }],
    sent: [{}, {}],
  }),
  each(
    'a type is one in capitals, and with parameters',
    ['Text/Event-Stream', 'text/event-stream;charset=UTF-8', 'TEXT/EVENT-STREAM ; x="y"'],
    (type) => ({
      answers: [sessionStream(talk(), { headers: { 'content-type': type } })],
      steps: [send],
      saw: [{ ok: { chunks: texts } }],
    }),
  ),
  one('the text so far is kept up to 8 MiB', {
    answers: [
      plainStream(
        [...plain(Array.from({ length: 9 }, () => 'z'.repeat(mebibyte))), '\n'].slice(0, 9),
      ),
    ],
    steps: [{ ...chat, report: 'digest' }],
    saw: [
      {
        error: {
          class: 'IncompleteStreamError',
          partial_text: (text: string) => text.length === 8 * mebibyte,
        },
        chunks: { count: 9, bytes: 9 * mebibyte },
      },
    ],
  }),
  each(
    'an answer that is generated whole takes its time',
    [
      { op: 'chat.create', body: chat.body },
      { op: 'messages.send', session_id: session, content: 'Hi' },
    ],
    (step) => ({
      client: { idle_timeout_ms: 2000 },
      answers: [{ raw: [{ pauseMs: 3000 }, head, '{"id":"x"}'] }],
      steps: [step],
      saw: [{ ok: { id: 'x' } }],
      sent: [{}],
    }),
  ),
  each(
    'a server that repeats the key makes nobody show it',
    [`"${key}"`, `"\\u0074${key.slice(1)}"`, `"Bearer ${key}, or ${key}?"`],
    (said) => ({
      client: { max_retries: 0 },
      answers: [
        {
          status: 400,
          headers: { ...json, 'x-request-id': key },
          body: [`{"error":{"message":${said},"code":${said},"type":${said},"param":${said}}}`],
        },
        plainStream([
          ...plain().slice(0, 1),
          block(`{"error":{"message":${said},"code":${said}}}`),
        ]),
      ],
      steps: [balance, chat],
      saw: [{ error: { class: 'BadRequestError' } }, { error: { class: 'APIError' } }],
    }),
  ),
  one('a list that goes backwards goes on backwards', {
    answers: [
      page([sessionObject('sess_7'), sessionObject('sess_8')], true),
      page([sessionObject('sess_6')], false),
    ],
    steps: [{ op: 'sessions.list', params: { before: 'sess_9' } }],
    saw: [{ ok: [{ id: 'sess_7' }, { id: 'sess_8' }, { id: 'sess_6' }] }],
    sent: [
      { path: '/api/chat/sessions?before=sess_9' },
      { path: '/api/chat/sessions?before=sess_7' },
    ],
  }),
  one('a refusal that comes in drops is told before its end', {
    client: { max_retries: 0, ...idle },
    answers: [
      {
        status: 402,
        headers: json,
        body: Array.from({ length: 400 }, () => [' ', { pauseMs: 50 }]).flat(),
      },
    ],
    steps: [balance],
    saw: [{ error: { class: 'InsufficientBalanceError', status: 402 } }],
    check: ({ sent }) => assert.ok((sent[0]?.written ?? 0) < 200, `${sent[0]?.written} drops`),
  }),
  one('an event of lines without end is given up', {
    answers: [plainStream(endless('data: xxxxxxxx\n'))],
    steps: [chat],
    saw: [{ error: { class: 'TollgateError', status: null } }],
    check: ({ sent }) =>
      assert.ok((sent[0]?.written ?? 0) < 60 * mebibyte, `${sent[0]?.written} bytes were taken`),
  }),
  one('a head without an end is given up', {
    client: { max_retries: 0 },
    answers: [{ raw: ['HTTP/1.1 200 OK\r\n', ...endless('x-more: yyyyyyyyyyyyyyyy\r\n')] }],
    steps: [list],
    saw: [{ error: { class: 'ConnectionError' } }],
    check: ({ sent }) =>
      assert.ok((sent[0]?.written ?? 0) < 60 * mebibyte, `${sent[0]?.written} bytes were taken`),
  }),
  one('answers on the way to the answer are none', {
    answers: [
      {
        raw: [
          'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n',
          'HTTP/1.1 103 Early Hints\r\nlink: </b>\r\n\r\n',
          'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 27\r\nconnection: close\r\n\r\n',
          '{"object":"list","data":[]}',
        ],
      },
    ],
    steps: [list],
    saw: [{ ok: [] }],
    sent: [{}],
  }),
  each('JSON that is no object is no answer', ['null', '[]', '7', '"text"'], (body) => ({
    answers: [{ headers: json, body: [body] }],
    steps: [balance],
    saw: [{ error: { class: 'TollgateError' } }],
    sent: [{}],
  })),
  // In a process of its own, so that its memory shows what the answer takes.
  one('an answer that unpacks to no end', {
    env: {},
    answers: [{ headers: { ...json, 'content-encoding': 'gzip' }, body: bomb }],
    steps: [balance, { op: 'memory' }],
    saw: [{ error: { class: 'TollgateError' } }, { ok: {} }],
    check: ({ steps }) => small(steps[1], 420),
  }),
  one('an error that unpacks to no end', {
    env: {},
    client: { max_retries: 0 },
    answers: [{ status: 500, headers: { ...json, 'content-encoding': 'gzip' }, body: bomb }],
    steps: [balance, { op: 'memory' }],
    saw: [{ error: { class: 'ServerError', status: 500 } }, { ok: {} }],
    check: ({ steps }) => small(steps[1], 256),
  }),
  each(
    'a list that has more and does not say where is no whole list',
    [
      { data: [sessionObject('sess_0')] },
      { data: [sessionObject('sess_0')], last_id: '' },
      { data: [{ object: 'chat.session' }] },
      { data: [], last_id: null },
    ],
    (told: Json) => ({
      answers: [
        { json: { object: 'list', ...told, has_more: true } },
        page([sessionObject('sess_1')], false),
      ],
      steps: [{ op: 'sessions.list', params: {} }],
      check({ sent, steps }) {
        const [step] = steps as readonly { error?: { class: string } }[]
        const isTold = step?.error?.class === 'TollgateError'
        assert.ok(isTold || sent[1]?.path.endsWith('?after=sess_0'), JSON.stringify(step))
      },
    }),
  ),
  one('a list that goes on where it was is an error, not without an end', {
    answers: Array.from({ length: 4 }, () => page([sessionObject('sess_1')], true)),
    steps: [{ op: 'sessions.list', params: {} }],
    saw: [{ error: { class: 'TollgateError' } }],
    sent: [{}, {}],
  }),
  one('a deletion whose answer has no end is done', {
    client: { idle_timeout_ms: 3000 },
    answers: [{ headers: json, body: ['{'], end: 'open' }, { json: fileObject() }],
    steps: [
      { op: 'files.delete', id: 'file_1' },
      { op: 'files.retrieve', id: 'file_1' },
    ],
    saw: [{ ok: null, error: null }, { ok: { id: 'file_1' } }],
    eventually: ({ sent }) => sent[0]?.closedEarly === true,
  }),
]

function small(step: Json | undefined, mebibytes: number): void {
  const { peak } = (step?.ok ?? {}) as { peak?: number }
  assert.ok((peak ?? Infinity) < mebibytes * mebibyte, `${(peak ?? 0) / mebibyte} MiB`)
}
