// src/sharing/discard.ts: what is freed, and what is left alone.

import t from 'tap'
import { discard, free } from '../../src/sharing/discard.ts'

t.test('memory of its own is freed', async (t) => {
  const { external: before } = process.memoryUsage()
  const own = Buffer.alloc(64 * 2 ** 20, 1)
  discard(own)
  t.equal(own.length, 0)
  t.ok(process.memoryUsage().external - before < 2 ** 20)
})

t.test('with a part of it the whole is freed, where that is wanted', async (t) => {
  const whole = Buffer.allocUnsafeSlow(8)
  free(whole.subarray(0, 4))
  t.equal(whole.length, 0)
})

t.test('a part of something larger stays', async (t) => {
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
