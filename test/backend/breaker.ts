// When a breaker opens, what it lets through, and what closes it.

import t from 'tap'
import { Breaker } from '../../src/backend/breaker.ts'
import { handClock } from '../fixtures/hand-clock.ts'

const breakerOf = (failures = 3, coolDownMs = 60_000) =>
  new Breaker(() => ({ failures, coolDownMs }))

function fail(breaker: Breaker, times = 1): void {
  for (let i = 0; i < times; i++) breaker.failed(breaker.begin('a'))
}

t.test('it opens after so many failures in a row, and not before', async (t) => {
  handClock(t)
  const breaker = breakerOf()
  fail(breaker, 2)
  breaker.succeeded(breaker.begin('a'))
  fail(breaker, 2)
  t.strictSame([breaker.state, breaker.waitMs('a'), breaker.failures], ['closed', 0, 2])
  fail(breaker)
  t.strictSame([breaker.state, breaker.waitMs('a')], ['open', 1000])
})

t.test('after the cool-down one request goes through, and its success closes it', async (t) => {
  const { pass } = handClock(t)
  const breaker = breakerOf(1)
  fail(breaker)
  pass(1000)
  t.strictSame([breaker.state, breaker.waitMs('a')], ['half_open', 0])
  const probe = breaker.begin('a')
  t.ok(probe > 0)
  t.equal(breaker.waitMs('a'), 1000, 'no second one')
  breaker.succeeded(probe)
  t.strictSame([breaker.state, breaker.waitMs('a'), breaker.failures], ['closed', 0, 0])
  t.equal(breaker.begin('a'), 0)
})

/** The ms from each opening to the next probe, which fails. */
function coolDowns(breaker: Breaker, times: number, pass: (ms: number) => void): number[] {
  return Array.from({ length: times }, () => {
    const waitMs = breaker.waitMs('a')
    pass(waitMs)
    fail(breaker)
    return waitMs
  })
}

t.test('each probe that fails makes the cool-down twice as long, up to its bound', async (t) => {
  const { pass } = handClock(t)
  const breaker = breakerOf(1, 30_000)
  fail(breaker)
  t.strictSame(
    coolDowns(breaker, 8, pass),
    [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000],
  )
  const short = breakerOf(1, 300)
  fail(short)
  t.strictSame(coolDowns(short, 3, pass), [300, 300, 300])
})

t.test('a success makes the cool-down short again, a first content does not', async (t) => {
  const { pass } = handClock(t)
  const breaker = breakerOf(1)
  fail(breaker)
  coolDowns(breaker, 3, pass)
  pass(8000)
  const probe = breaker.begin('a')
  breaker.answered(probe)
  t.equal(breaker.state, 'closed')
  breaker.failed(probe)
  t.equal(breaker.waitMs('a'), 16_000, 'it has cut the answer of its probe')
  pass(16_000)
  breaker.succeeded(breaker.begin('a'))
  fail(breaker)
  t.equal(breaker.waitMs('a'), 1000)
})

t.test('where nobody else can be asked, a second after a failure is enough', async (t) => {
  const { pass } = handClock(t)
  const breaker = breakerOf(1)
  fail(breaker)
  coolDowns(breaker, 5, pass)
  t.strictSame([breaker.waitMs('a'), breaker.lastResortMs('a')], [32_000, 1000])
  pass(1000)
  t.equal(breaker.lastResortMs('a'), 0)
  breaker.begin('a')
  t.equal(breaker.lastResortMs('a'), 32_000, 'one at a time')
  const short = breakerOf(1, 300)
  fail(short)
  t.equal(short.lastResortMs('a'), 300)
})

t.test('a probe about which nothing is said is followed by another one', async (t) => {
  const { pass } = handClock(t)
  const breaker = breakerOf(1)
  fail(breaker)
  pass(1000)
  const probe = breaker.begin('a')
  breaker.release(probe)
  t.equal(breaker.waitMs('a'), 0)
})

t.test('a probe that hangs is followed by others, each after twice the time', async (t) => {
  const { pass } = handClock(t)
  const breaker = breakerOf(1, 10_000)
  fail(breaker)
  pass(1000)
  const waits = Array.from({ length: 6 }, () => {
    breaker.begin('a')
    const waitMs = breaker.waitMs('a')
    pass(waitMs)
    return waitMs
  })
  t.strictSame(waits, [1000, 2000, 4000, 8000, 10_000, 10_000])
})

t.test('a probe that hung says nothing of the time after it', async (t) => {
  const { pass } = handClock(t)
  const breaker = breakerOf(2)
  fail(breaker, 2)
  pass(1000)
  const hung = breaker.begin('a')
  pass(1000)
  const next = breaker.begin('a')
  breaker.release(hung)
  t.equal(breaker.waitMs('a'), 2000, 'the next one is under way')
  breaker.succeeded(next)
  breaker.failed(hung)
  t.strictSame([breaker.state, breaker.failures], ['closed', 1])
})

t.test('a probe that breaks after other successes is one failure', async (t) => {
  const { pass } = handClock(t)
  const breaker = breakerOf(2)
  fail(breaker, 2)
  pass(1000)
  const probe = breaker.begin('a')
  breaker.answered(probe)
  breaker.succeeded(breaker.begin('a'))
  breaker.failed(probe)
  t.strictSame([breaker.state, breaker.failures], ['closed', 1])
})

t.test('what was sent before it opened neither closes it nor makes it wait longer', async (t) => {
  const { pass } = handClock(t)
  const breaker = breakerOf(1)
  const early = breaker.begin('a')
  fail(breaker)
  breaker.succeeded(early)
  t.equal(breaker.state, 'open')
  pass(500)
  breaker.failed(early)
  t.equal(breaker.waitMs('a'), 500)
})

t.test("one account's own failures never open it, those of two do", async (t) => {
  const breaker = breakerOf(3)
  for (let i = 0; i < 100; i++) t.equal(breaker.suspected('a', 0), false)
  t.strictSame([breaker.state, breaker.failures], ['closed', 0])
  t.equal(breaker.suspected('b', 0), true)
  t.equal(breaker.suspected('a', 0), true)
  breaker.suspected('a', 0)
  t.equal(breaker.state, 'open')
})

t.test('a success clears all suspicion', async (t) => {
  const breaker = breakerOf(1)
  breaker.suspected('a', 0)
  breaker.succeeded(0)
  t.equal(breaker.suspected('b', 0), false)
})

t.test(
  'an account whose probe has said nothing keeps no other one out with the next',
  async (t) => {
    const { pass } = handClock(t)
    const breaker = breakerOf(1)
    fail(breaker)
    pass(1000)
    const waits = () => ['thief', 'a', 'b'].map((account) => breaker.waitMs(account))
    const begin = () => breaker.begin('thief')
    breaker.suspected('thief', begin())
    t.strictSame(waits(), [1000, 1000, 1000], 'the first one counts as any')
    breaker.release(1)
    const second = begin()
    t.strictSame(waits(), [1000, 0, 0])
    const probe = breaker.begin('a')
    t.strictSame(waits(), [1000, 1000, 1000], 'of the others, one')
    breaker.release(second)
    breaker.failed(probe)
    breaker.release(probe)
    pass(2000)
    breaker.answered(begin())
    fail(breaker)
    pass(2000)
    begin()
    t.strictSame(waits(), [2000, 2000, 2000], 'content clears that')
  },
)
