// The reader of backend streams: what comes out does not depend on where the network cut, and is the backend's bytes.

import { readdirSync } from 'node:fs'
import t from 'tap'
import { SseReader } from '../../src/backend/sse-reader.ts'
import type { GatewayError } from '../../src/errors.ts'
import type { SseEvent } from '../../src/exchange.ts'
import { bodyOf } from '../fixtures/sse-events.ts'

function read(chunks: readonly (string | Buffer)[], maxBytes = 1 << 20): SseEvent[] {
  const events: SseEvent[] = []
  const reader = new SseReader(maxBytes)
  for (const chunk of chunks) reader.feed(Buffer.from(chunk), (event) => events.push(event))
  reader.end()
  return events
}

const data = (...values: string[]): SseEvent[] =>
  values.map((value) => ({ event: undefined, data: value }))

const cases: readonly { name: string; bytes: string | Buffer; events: SseEvent[] }[] = [
  { name: 'one line a value', bytes: 'data: a\n\ndata: b\n\n', events: data('a', 'b') },
  { name: 'no space behind the colon', bytes: 'data:a\n\n', events: data('a') },
  { name: 'one space of two is data', bytes: 'data:  a\n\n', events: data(' a') },
  { name: 'CRLF line ends', bytes: 'data: a\r\n\r\ndata: b\r\n\r\n', events: data('a', 'b') },
  { name: 'CR line ends', bytes: 'data: a\r\rdata: b\r\r', events: data('a', 'b') },
  {
    name: 'mixed line ends',
    bytes: 'data: a\r\n\ndata: b\n\r\ndata: c\r\r\n',
    events: data('a', 'b', 'c'),
  },
  { name: 'multi-line data', bytes: 'data: a\ndata: b\ndata:\n\n', events: data('a\nb\n') },
  { name: 'multi-line data with CRLF', bytes: 'data: a\r\ndata: b\r\n\r\n', events: data('a\nb') },
  {
    name: 'an event name, for its own event alone',
    bytes: 'event: x\ndata: a\n\ndata: b\n\n',
    events: [{ event: 'x', data: 'a' }, ...data('b')],
  },
  {
    name: 'comments, id and retry dropped',
    bytes: ': hi\nid: 1\nretry: 5\ndata: a\n\n:\n\n',
    events: data('a'),
  },
  {
    name: 'unknown fields dropped',
    bytes: 'datax: 1\nDATA: 2\ndata : 3\ndata: a\n\n',
    events: data('a'),
  },
  {
    name: 'events without data dropped',
    bytes: 'data:\n\ndata: \n\ndata\n\nevent: x\n\ndata: a\n\n',
    events: data('a'),
  },
  {
    name: 'many blank lines',
    bytes: '\n\n\n\ndata: a\n\n\n\n\ndata: b\n\n\n',
    events: data('a', 'b'),
  },
  { name: 'a byte order mark', bytes: '\ufeffdata: a\n\n', events: data('a') },
  {
    name: 'a mark in the middle is data',
    bytes: 'data: a\n\ndata: \ufeff\n\n',
    events: data('a', '\xef\xbb\xbf'),
  },
  { name: 'an unfinished event', bytes: 'data: a\n\ndata: b\n', events: data('a') },
  {
    name: 'UTF-8 as bytes',
    bytes: 'data: é€😀\n\n',
    events: data(Buffer.from('é€😀').toString('latin1')),
  },
  {
    name: 'bytes that are no UTF-8, and NUL',
    bytes: Buffer.from([...Buffer.from('data: '), 0xff, 0xfe, 0xc3, 0x00, 0x85, 0x0a, 0x0a]),
    events: data('\xff\xfe\xc3\x00\x85'),
  },
]

for (const { name, bytes, events } of cases) {
  t.test(`${name}: the same whole, in two pieces at every byte, and byte by byte`, async (t) => {
    const whole = Buffer.from(bytes)
    t.strictSame(read([whole]), events)
    for (let cut = 0; cut <= whole.length; cut++) {
      const got = read([whole.subarray(0, cut), whole.subarray(cut)])
      if (JSON.stringify(got) !== JSON.stringify(events)) {
        t.strictSame(got, events, `cut at ${cut}`)
      }
    }
    t.strictSame(read([...whole].flatMap((byte) => [Buffer.from([byte]), ''])), events)
  })
}

t.test('every captured stream: each data value byte for byte, wherever it is cut', async (t) => {
  const names = readdirSync(new URL('../fixtures/captures', import.meta.url))
  for (const name of names.filter((file) => file.endsWith('.sse'))) {
    const body = bodyOf(name)
    const expected = body
      .toString('latin1')
      .split('\n')
      .filter((line) => line.startsWith('data: '))
      .map((line) => line.slice(6))
    const sizes = [1, 7, 64, 4096, body.length]
    for (const size of sizes) {
      const chunks = Array.from({ length: Math.ceil(body.length / size) }, (_, i) =>
        body.subarray(i * size, (i + 1) * size),
      )
      const got = read(chunks).map((event) => event.data)
      if (got.join('\n') !== expected.join('\n')) t.strictSame(got, expected, `${name} by ${size}`)
    }
  }
  t.ok(names.length > 30)
})

t.test('an event may be as large as the limit, and no larger', async (t) => {
  const fits = `data: ${'x'.repeat(94)}\n\n`
  t.equal(read([fits], 100).length, 1)
  t.equal(read([...fits], 100).length, 1)
  for (const size of [1, 50, 200]) {
    const bytes = Buffer.from(`data: ${'x'.repeat(95)}\n\n`)
    const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
      bytes.subarray(i * size, (i + 1) * size),
    )
    t.throws(() => read(chunks, 100), { code: 'upstream_error', source: 'backend' })
  }
})

t.test('a line without end is refused at the bound and held no longer than that', async (t) => {
  const reader = new SseReader(8 << 20)
  const piece = Buffer.alloc(64 * 1024, 'x')
  let fed = 0
  let refusal: GatewayError | undefined
  while (!refusal && fed < 16 << 20) {
    try {
      reader.feed(piece, () => t.fail('an event'))
      fed += piece.length
    } catch (error) {
      refusal = error as GatewayError
    }
  }
  t.equal(refusal?.code, 'upstream_error')
  t.equal(fed, 8 << 20)
  t.notMatch(refusal?.message, /xxx/)
})

t.test('many short lines of one event are limited together', async (t) => {
  const reader = new SseReader(10_000)
  t.throws(
    () => {
      for (let i = 0; i < 10_000; i++) reader.feed(Buffer.from('data: x\n'), () => {})
    },
    { code: 'upstream_error' },
  )
})
