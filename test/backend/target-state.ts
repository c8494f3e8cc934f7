// What a target's state tells, and when those that wait are told that nobody will come.

import { mock } from 'node:test'
import t from 'tap'
import { ModelState, TargetState } from '../../src/backend/target-state.ts'
import { Targets } from '../../src/backend/targets.ts'
import { handClock } from '../fixtures/hand-clock.ts'
import { modelOf, targetOf } from '../fixtures/target.ts'
import { soon } from '../fixtures/until.ts'

t.test('it is full when as much is under way as it may have', async (t) => {
  const state = new TargetState(targetOf('http://a.test/v1', { maxConcurrency: 2 }))
  state.open = 1
  t.equal(state.isFull, false)
  state.open = 2
  t.equal(state.isFull, true)
  state.target = targetOf('http://a.test/v1')
  t.equal(state.isFull, false, 'without a bound it never is')
  const model = new ModelState(modelOf([], { maxConcurrency: 1 }))
  t.equal(model.isFull, false)
  model.open = 1
  t.equal(model.isFull, true)
})

t.test('since says when a state began', async (t) => {
  const state = new TargetState(targetOf('http://a.test/v1'))
  const { since } = state.show()
  t.ok(Math.abs(since - Date.now() / 1000) < 10)
  t.strictSame(state.show(), { state: 'up', since })
  state.loads()
  t.equal(state.show().state, 'loading')
})

t.test('one that its check holds back is unhealthy, also when its cool-down is over', async (t) => {
  const { pass } = handClock(t)
  const state = new TargetState(targetOf('http://a.test/v1'))
  const { breaker } = state
  for (let i = 0; i < state.target.breaker.failures; i++) breaker.failed(breaker.begin('a'))
  state.isUnhealthy = true
  t.equal(state.show().state, 'open', 'the cool-down is the stricter one')
  pass(1000)
  t.equal(state.show().state, 'unhealthy')
  state.isUnhealthy = false
  t.equal(state.show().state, 'half_open')
})

t.test('where nothing is under way, and none may be asked, nobody waits', async (t) => {
  const state = new ModelState(modelOf([]))
  const { signal } = new AbortController()
  const since = performance.now()
  const until = since + 60_000
  const waiting = state.line.wait({ account: 'a', since, signal, until, take: () => undefined })
  state.open = 1
  state.serve()
  t.equal(state.line.size, 1)
  state.open = 0
  state.serve()
  await t.rejects(soon(waiting), { code: 'upstream_unavailable' })
})

t.test('nobody waits for room at a target whose cool-down ends in this moment', async (t) => {
  let now = 0
  let stepMs = 0
  const clock = mock.method(performance, 'now', () => (now += stepMs))
  t.teardown(() => clock.mock.restore())
  const model = modelOf([targetOf('http://a.test/v1')])
  const { signal } = new AbortController()
  let asked = 0
  // At each start, the cool-down of a second ends a look at the clock later than at the one before.
  for (let start = 960; start <= 1000; start++) {
    const targets = new Targets()
    now = 0
    stepMs = 0
    for (let i = 0; i < 5; i++) targets.candidatesFor(model, 'a').next()?.failed()
    now = start
    stepMs = 1
    const candidates = targets.candidatesFor(model, 'a')
    const coming = candidates.next() ?? candidates.wait(signal)
    t.equal(targets.modelStateOf(model).line.size, 0, `${start}`)
    if (await Promise.resolve(coming).catch(() => undefined)) asked++
  }
  t.ok(asked > 0 && asked < 41, `${asked} were the probe`)
})
