// What EventReader promises, for each version of the parser that the package may be installed with.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TollgateError } from '../../src/errors.ts'
import type { EventReader, StreamEvent } from '../../src/events.ts'

const encoder = new TextEncoder()
const text =
  'retry: 1000\nid: m:0\ndata: {"é":1}\n\n:\n:\nid: m:1\nevent: x\ndata: a\ndata: 👋\n\ndata: [DONE]\n\n'
const expected = [
  ['m:0', '{"é":1}'],
  ['m:1', 'a\n👋'],
  [undefined, '[DONE]'],
]
const mebibyte = 1_048_576

export function testEvents(Reader: typeof EventReader): void {
  const read = (pieces: Iterable<Uint8Array>) => {
    const reader = new Reader()
    return [...pieces].flatMap((piece) => reader.feed(piece))
  }
  const told = (events: readonly StreamEvent[]) => events.map(({ id, data }) => [id, data])

  for (const end of ['\n', '\r', '\r\n']) {
    test(`cut in two at every byte, lines ending in ${JSON.stringify(end)}`, () => {
      const bytes = encoder.encode(text.replaceAll('\n', end))
      for (let at = 0; at <= bytes.length; at++) {
        assert.deepEqual(
          told(read([bytes.subarray(0, at), bytes.subarray(at)])),
          expected,
          `at ${at}`,
        )
      }
      assert.deepEqual(told(read(Array.from(bytes, (byte) => Uint8Array.of(byte)))), expected)
    })

    test(`an event is there with its last byte, lines ending in ${JSON.stringify(end)}`, () => {
      const reader = new Reader()
      assert.equal(reader.feed(encoder.encode(`data: a${end}${end}`)).length, 1)
      assert.equal(reader.feed(encoder.encode(`data: b${end}${end}`)).length, 1)
    })
  }

  test('an event of 8 MiB in small pieces takes no long time', () => {
    const from = performance.now()
    const data = 'x'.repeat(8 * mebibyte)
    const [event] = read(sliced(`data: ${data}\n\n`, 1024))
    assert.equal(event?.data.length, data.length)
    assert.ok(performance.now() - from < 3000, `${performance.now() - from} ms`)
  })

  test('one byte more is refused, counted as UTF-8', () => {
    for (const data of ['x'.repeat(8 * mebibyte + 1), 'é'.repeat(4 * mebibyte + 1)]) {
      assert.throws(() => read(sliced(`data: ${data}\n\n`, 65_536)), TollgateError)
      assert.throws(() => read([encoder.encode(`data: ${data}\n\n`)]), TollgateError)
    }
  })

  test('lines without an end are refused, whatever they are', () => {
    for (const start of ['data: ', ': ', 'id: ', 'unheard of', '']) {
      assert.throws(() => read(sliced(start + 'x'.repeat(9 * mebibyte), 65_536)), TollgateError)
    }
  })

  test('data in lines without an end is refused', () => {
    assert.throws(() => read(sliced('data: 12345678\n'.repeat(mebibyte), 65_536)), TollgateError)
  })

  test('comments without end are none of an event’s length', () => {
    assert.deepEqual(read(sliced(': still here\n'.repeat(mebibyte), 65_536)), [])
  })
}

function* sliced(long: string, size: number): Generator<Uint8Array> {
  const bytes = encoder.encode(long)
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}
