// Reading a stream: every way in which the same bytes may arrive, every shape that an event may have, and how a reader
// stops.

import assert from 'node:assert/strict'
import { each, one, row } from '../case.ts'
import type { Case, Plain, Run } from '../case.ts'
import type { Piece } from '../server.ts'
import {
  block,
  chunk,
  digestOf,
  frames,
  plain,
  plainStream,
  retry,
  sendPath,
  sessionStream,
  talk,
  texts,
} from '../transcript.ts'
import { chat, mebibyte, send } from './steps.ts'

/** All texts of an answer arrive, and nothing was requested again. */
function intact(body: Iterable<Piece>, said: readonly string[] = texts): Plain {
  return {
    answers: [sessionStream(body)],
    steps: [send],
    saw: [{ ok: { chunks: said, message_id: 'msg_1', last_event_id: `msg_1:${said.length}` } }],
    sent: [{}],
  }
}

function chatIntact(body: Iterable<Piece>, said: readonly string[]): Run {
  return {
    answers: [plainStream(body)],
    steps: [chat],
    saw: [{ ok: { chunks: said } }],
    sent: [{}],
  }
}

/** The data of its event has exactly 8 MiB. */
const eightMiB = 'x'.repeat(8 * mebibyte - JSON.stringify(chunk('')).length)
const bytes = Buffer.from(talk(['é', '你好', '👋🏽']).join(''))

const strange = {
  ...chunk('a'),
  service_tier: 'fictional',
  x_new: { big: 9007199254740991, list: [1, 'ü', null, true, 1.5] },
  choices: [
    {
      index: 0,
      finish_reason: 'unheard_of',
      delta: {
        content: 'a',
        role: 'oracle',
        tool_calls: [{ index: 0, function: { name: 'f', arguments: '{' }, extra: 1 }],
        reasoning_content: 'hm',
      },
      logprobs: { content: [] },
      token_ids: [1, 2],
    },
  ],
}

export const streams: readonly Case[] = [
  row('cut in two at every byte, within letters too', bytes.keys(), (at) =>
    intact([bytes.subarray(0, at), bytes.subarray(at)], ['é', '你好', '👋🏽']),
  ),
  one(
    'byte by byte',
    intact(
      Array.from(bytes, (byte) => Buffer.of(byte)),
      ['é', '你好', '👋🏽'],
    ),
  ),
  each('LF, CR and CRLF end a line', ['\n', '\r', '\r\n'], (end) =>
    intact([talk().join('').replaceAll('\n', end)]),
  ),
  each('a CRLF that comes in two parts ends one line', talk().keys(), (at) =>
    intact(split(talk(), at)),
  ),
  one('each line may end its own way', intact([mixed(talk().join(''))])),
  each('a heartbeat in every place', talk().keys(), (at) =>
    intact([...talk().slice(0, at), ':\n', ':\n:\n', ': still here\n', ...talk().slice(at)]),
  ),
  one(
    'a comment between the lines of an event',
    intact([talk().join('').replaceAll('data:', ':\ndata:')]),
  ),
  one('10,000 events in one piece', {
    answers: [plainStream([plain(many(10_000)).join('')])],
    steps: [{ ...chat, report: 'digest' }],
    saw: [{ ok: { chunks: digestOf(many(10_000)) } }],
  }),
  one('an event of 8 MiB', {
    answers: [plainStream(sliced(plain([eightMiB]).join('')))],
    steps: [{ ...chat, report: 'digest' }],
    saw: [{ ok: { chunks: digestOf([eightMiB]) } }],
  }),
  each('an event without an end is given up', ['data: ', ':', 'id: ', ''], (start) => ({
    answers: [plainStream(endless(start))],
    steps: [chat],
    saw: [{ error: { class: 'TollgateError', status: null } }],
    check: ({ sent }) =>
      assert.ok((sent[0]?.written ?? 0) < 60 * mebibyte, `${sent[0]?.written} bytes were taken`),
  })),
  one('a byte order mark is no part of the first event', chatIntact(['\uFEFF', ...plain()], texts)),
  one(
    'data in several lines is one event',
    chatIntact(
      [`${JSON.stringify(chunk('a'), null, 1).replace(/^/gm, 'data: ')}\n\n`, block('[DONE]')],
      ['a'],
    ),
  ),
  one(
    'without a space behind the colon',
    intact([
      talk()
        .join('')
        .replaceAll(/^(id|data|retry): /gm, '$1:'),
    ]),
  ),
  one(
    'events with a name, without data, and fields unheard of',
    chatIntact(
      [
        'event: surprise\n',
        ...frames(['a']),
        'event: empty\n\n',
        'id: 7\n\n',
        'retry: 5\n\n',
        'data\n\n',
        'data:\n\n',
        'unknown: x\n',
        ...plain(['b']),
      ],
      ['a', 'b'],
    ),
  ),
  one('what is not known is kept', {
    answers: [plainStream([block(JSON.stringify(strange)), block('[DONE]')])],
    steps: [{ ...chat, report: 'raw' }],
    saw: [{ ok: { chunks: [strange] } }],
  }),
  one(
    'chunks without choices, delta or content have no text',
    chatIntact(
      [
        chunk(null),
        { ...chunk(null), choices: [], usage: { total_tokens: 1 } },
        { object: 'x' },
        chunk(null, {
          choices: [{ index: 0, delta: { content: null, tool_calls: [{ index: 0 }] } }],
        }),
        { ...chunk(null), choices: [{ index: 0 }] },
      ]
        .map((data) => block(JSON.stringify(data)))
        .concat(plain(['x'])),
      ['', '', '', '', '', 'x'],
    ),
  ),
  one(
    'an error that is null is none',
    chatIntact([block(JSON.stringify(chunk('a', { error: null }))), block('[DONE]')], ['a']),
  ),
  each(
    'a chunk that is no object is an error, and the connection is closed',
    ['{"a":', 'hello', '7', '[]', 'null'],
    (data) => ({
      answers: [plainStream([...frames(['a']), block(data), { pauseMs: 1 }], { end: 'open' })],
      steps: [chat],
      saw: [{ error: { class: 'TollgateError', status: null }, chunks: ['a'] }],
      eventually: ({ sent }) => sent[0]?.closedEarly === true,
    }),
  ),
  each(
    'an answer that is no stream is no empty stream',
    [{ 'content-type': 'text/html' }, { 'content-type': 'application/json' }, {}],
    (headers: Readonly<Record<string, string>>) => ({
      answers: [{ headers, body: ['<html>{"object":"x"}</html>'] }],
      steps: [chat],
      saw: [{ error: { class: 'TollgateError' } }],
      sent: [{}],
    }),
  ),
  one('a chunk is given before the next one is sent', {
    answers: [
      {
        on: `POST ${sendPath}`,
        ...sessionStream([talk()[0] ?? '', { requests: 2 }, ...talk().slice(1)]),
      },
      { on: 'GET /v1/models', json: { object: 'list', data: [] } },
    ],
    steps: [{ ...send, during: [{ after: 1, step: { op: 'models.list' } }] }],
    saw: [{ ok: { chunks: texts, during: [{ ok: [] }] } }],
  }),
  one('[DONE] ends it, though the connection stays open', {
    answers: [sessionStream(talk(), { end: 'open' })],
    steps: [send],
    saw: [{ ok: { chunks: texts } }],
    sent: [{}],
    eventually: ({ sent }) => sent[0]?.closedEarly === true,
  }),
  one('what comes behind [DONE] is not given', {
    answers: [plainStream([...plain(['a']), ...plain(['b'])])],
    steps: [chat],
    saw: [{ ok: { chunks: ['a'] } }],
  }),
  one('an answer of no chunks at all', chatIntact([block('[DONE]')], [])),
  each(
    'leaving the loop closes the connection',
    [{ leave_after: 1 }, { during: [{ after: 1, step: { op: 'stream.close' } }] }],
    (how) => ({
      answers: [sessionStream(talk().slice(0, 3), { end: 'open' })],
      steps: [{ ...send, ...how, ...('leave_after' in how ? {} : { leave_after: 1 }) }],
      saw: [{ ok: { chunks: ['Hello'] } }],
      sent: [{}],
      eventually: ({ sent }) => sent[0]?.closedEarly === true,
    }),
  ),
  one('a reader that stops holds the sender back', {
    answers: [
      { on: `POST ${sendPath}`, ...sessionStream(flood(96)) },
      {
        on: 'GET /v1/models',
        raw: [
          { requests: 2 },
          { pauseMs: 1500 },
          'HTTP/1.1 200 OK\r\ncontent-length: 27\r\nconnection: close\r\n\r\n{"object":"list","data":[]}',
        ],
      },
    ],
    steps: [
      {
        ...send,
        report: 'digest',
        leave_after: 1,
        during: [{ after: 1, step: { op: 'models.list' } }],
      },
    ],
    saw: [{ ok: { during: [{ ok: [] }] } }],
    check: ({ sent }) =>
      assert.ok((sent[0]?.written ?? 0) < 32 * mebibyte, `${sent[0]?.written} bytes were taken`),
  }),
]

/** The position after the CR of the block's first line. */
function split(blocks: readonly string[], at: number): readonly Piece[] {
  const text = blocks.map((one) => one.replaceAll('\n', '\r\n'))
  const before = text.slice(0, at).join('')
  const [first = '', ...others] = text
    .slice(at)
    .join('')
    .split(/(?<=\r)/)
  return [before + first, others.join('')]
}

function mixed(text: string): string {
  const ends = ['\r\n', '\n', '\r', '\r\n', '\r'] as const
  let last = ''
  return text.replaceAll('\n', (_, at: number) => {
    const next = ends[at % ends.length] ?? '\n'
    // A CR, followed by the LF of an empty line, would be one line end.
    last = text[at - 1] === '\n' && last === '\r' && next === '\n' ? '\r' : next
    return last
  })
}

function many(count: number): readonly string[] {
  return Array.from({ length: count }, (_, i) => `${i} `)
}

function sliced(text: string): Iterable<string> {
  return again(function* () {
    for (let at = 0; at < text.length; at += 16_384) yield text.slice(at, at + 16_384)
  })
}

function endless(start: string): Iterable<string> {
  return again(function* () {
    yield start
    for (let i = 0; i < 2048; i++) yield 'x'.repeat(65_536)
  })
}

function flood(mebibytes: number): Iterable<string> {
  return again(function* () {
    yield retry
    for (let i = 0; i < mebibytes * 16; i++) {
      yield block(JSON.stringify(chunk('y'.repeat(65_000))), i)
    }
  })
}

/** An iterable that each client can read from its start; a generator could be read only once. */
function again(pieces: () => Iterator<string>): Iterable<string> {
  return { [Symbol.iterator]: pieces }
}
