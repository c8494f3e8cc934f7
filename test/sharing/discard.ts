// src/sharing/discard.ts: which memory is freed, and which is left alone.

import t from 'tap'
import { discard, free } from '../../src/sharing/discard.ts'
import { bothWays } from '../fixtures/both-ways.ts'

const test = bothWays(t, 'freed-buffers')

test("a buffer's own memory is freed", async (t, isPlain) => {
  const { external: before } = process.memoryUsage()
  const own = Buffer.alloc(64 * 2 ** 20, 1)
  discard(own)
  t.equal(own.length, isPlain ? 64 * 2 ** 20 : 0)
  t.equal(process.memoryUsage().external - before < 2 ** 20, !isPlain)
})

test('a part can free the whole memory, if the caller wants that', async (t, isPlain) => {
  const whole = Buffer.allocUnsafeSlow(8)
  free(whole.subarray(0, 4))
  t.equal(whole.length, isPlain ? 8 : 0)
})

test('a part of something larger stays', async (t) => {
  const whole = Buffer.from(new ArrayBuffer(8)).fill('12345678')
  discard(whole.subarray(0, 4))
  discard(whole.subarray(4))
  t.equal(String(whole), '12345678')
  const pooled = Buffer.from('pooled')
  discard(pooled)
  t.equal(String(pooled), 'pooled')
  const shared = Buffer.from(new SharedArrayBuffer(4))
  discard(shared)
  t.equal(shared.length, 4)
})
