import t from 'tap'
import { createTurns } from '../../../src/plugins/account/turns.ts'
import type { Gateway } from '../../../src/plugin.ts'
import { handClock } from '../../fixtures/hand-clock.ts'

const gatewayWith = (failures_per_minute_per_ip: number) =>
  ({
    state: {},
    config: { plugins: new Map([['account', { failures_per_minute_per_ip }]]) },
  }) as unknown as Gateway

const tooOften = { code: 'rate_limit_exceeded' }

t.test('bad log-ins of an address are spent at once, and come back evenly', async (t) => {
  const clock = handClock(t)
  const take = createTurns(gatewayWith(3))
  const [one, two] = [take('192.0.2.1'), take('192.0.2.1')]
  const three = take('192.0.2.1')
  t.throws(() => take('192.0.2.1'), { ...tooOften, retryAfterMs: 20_000 }, 'while they still run')
  three.end(true)
  take('192.0.2.1').end(false)
  t.throws(() => take('192.0.2.1'), tooOften)
  for (const turn of [one, two]) turn.end(false)
  t.throws(() => take('192.0.2.1'), tooOften)
  take('192.0.2.2').end(false)
  clock.pass(20_000)
  take('192.0.2.1').end(false)
  t.throws(() => take('192.0.2.1'), tooOften)
})

t.test('the addresses of one /64 are one', async (t) => {
  const take = createTurns(gatewayWith(1))
  take('2001:db8::1').end(false)
  t.throws(() => take('2001:db8::2'), tooOften)
  take('2001:db8:0:1::1').end(false)
})

t.test('one address has half of the places, and a reload frees none', async (t) => {
  const gateway = gatewayWith(1000)
  const take = createTurns(gateway)
  const turns = Array.from({ length: 50 }, () => take('192.0.2.1'))
  const again = createTurns(gateway)
  t.throws(() => again('192.0.2.1'), { code: 'concurrency_limit_exceeded', status: 429 })
  const others = Array.from({ length: 49 }, (_, i) => again(`198.51.100.${i}`))
  t.throws(() => again('203.0.113.1'), { code: 'overloaded' })
  for (const turn of [...turns, ...others]) turn.end(true)
  again('192.0.2.1').end(true)
})
