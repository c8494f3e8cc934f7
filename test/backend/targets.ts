// Which target is asked next: by priority, then by weight and by what is under way.

import t from 'tap'
import { Targets } from '../../src/backend/targets.ts'
import type { Seat } from '../../src/backend/targets.ts'
import type { Model, Target } from '../../src/config/config.ts'
import { handClock } from '../fixtures/hand-clock.ts'
import { modelOf, targetOf } from '../fixtures/target.ts'
import { soon } from '../fixtures/until.ts'

const target = (name: string, priority: number, weight: number): Target =>
  targetOf(`http://${name}.test/v1`, { name, priority, weight })

/** Evenly spread over [0, 1). */
const steps = Array.from({ length: 100 }, (_, i) => i / 100)

/** All targets in the order in which one generation asks them; their seats are kept. */
function asked(targets: Targets, model: Model): Seat[] {
  const candidates = targets.candidatesFor(model, 'a')
  const seats: Seat[] = []
  for (let seat = candidates.next(); seat; seat = candidates.next()) seats.push(seat)
  return seats
}

const names = (seats: readonly Seat[]): string => seats.map(({ target }) => target.name).join('')

t.test('a lower priority comes first, whatever weights and order are', async (t) => {
  const model = modelOf([
    target('d', 10, 1),
    target('c', 2, 100),
    target('a', 1, 1),
    target('b', 1.5, 50),
  ])
  for (const step of steps) t.equal(names(asked(new Targets(() => step), model)), 'abcd')
})

t.test('where nothing is under way, each target comes as often as its weight says', async (t) => {
  const model = modelOf([target('a', 1, 3), target('b', 1, 1), target('c', 2, 9)])
  const first = steps.map(
    (step) => new Targets(() => step).candidatesFor(model, 'a').next()?.target.name,
  )
  t.equal(first.filter((name) => name === 'a').length, 75)
  t.equal(first.filter((name) => name === 'b').length, 25)
})

t.test('a generation asks each target once', async (t) => {
  const model = modelOf(['a', 'b', 'c', 'd'].map((name, i) => target(name, 1, i + 1)))
  for (const step of [0, 0.5, 0.999999, 1]) {
    const seats = asked(new Targets(() => step), model)
    t.equal([...names(seats)].sort().join(''), 'abcd')
  }
})

t.test('a slow target gets less: it is as busy as its weight says, and no busier', async (t) => {
  const model = modelOf([target('s', 1, 2), target('f', 1, 1)])
  const targets = new Targets()
  const atSlow: Seat[] = []
  // The fast target answers at once; the slow one never.
  for (let i = 0; i < 1000; i++) {
    const seat = targets.candidatesFor(model, 'a').next()
    if (seat?.target.name === 's') atSlow.push(seat)
    else seat?.release()
  }
  t.equal(atSlow.length, 1, 'the next request goes to the target that is idle')
  const open = targets.statesOf(model).map((state) => state.open)
  t.strictSame(open, [1, 0])
})

t.test('two that are equally slow share by weight', async (t) => {
  const model = modelOf([target('a', 1, 3), target('b', 1, 1)])
  const targets = new Targets()
  for (let i = 0; i < 400; i++) targets.candidatesFor(model, 'a').next()
  const open = targets.statesOf(model).map((state) => state.open)
  t.ok(Math.abs((open[0] ?? 0) - 300) <= 3, `${open.join()}`)
})

t.test('a seat is given back once', async (t) => {
  const model = modelOf([target('a', 1, 1)])
  const targets = new Targets()
  const [one, two] = [
    targets.candidatesFor(model, 'a').next(),
    targets.candidatesFor(model, 'a').next(),
  ]
  one?.release()
  one?.release()
  t.equal(targets.statesOf(model)[0]?.open, 1)
  two?.release()
  t.equal(targets.statesOf(model)[0]?.open, 0)
})

t.test('a new configuration finds what is under way, by address, model and key', async (t) => {
  const targets = new Targets()
  const before = modelOf([targetOf('http://a.test/v1', { key: 'k' }), targetOf('http://b.test/v1')])
  const seat = targets.candidatesFor(modelOf(before.targets.slice(0, 1)), 'a').next()
  const after = modelOf([
    targetOf('http://c.test/v1', { name: '1' }),
    targetOf('http://a.test/v1', { key: 'k', name: '2', weight: 9 }),
    targetOf('http://a.test/v1', { key: 'other', name: '3' }),
  ])
  t.strictSame(
    targets.statesOf(after).map((state) => [state.target.name, state.open]),
    [
      ['1', 0],
      ['2', 1],
      ['3', 0],
    ],
  )
  seat?.release()
  t.equal(targets.statesOf(after)[1]?.open, 0, 'the old seat is given back to the same target')
})

t.test('a target that no configuration has any more is forgotten', async (t) => {
  const targets = new Targets()
  const before = modelOf([target('a', 1, 1), target('b', 1, 1)])
  const after = () => modelOf([target('a', 1, 1)])
  asked(targets, before)
  targets.keep(new Map([[after().id, after()]]))
  t.equal(targets.statesOf(after())[0]?.open, 1)
  const again = modelOf([target('a', 1, 1), target('b', 1, 1)])
  t.equal(targets.statesOf(again)[1]?.open, 0)
})

t.test('two targets that are alike have states of their own', async (t) => {
  const targets = new Targets(() => 0)
  const model = modelOf([targetOf('http://a.test/v1'), targetOf('http://a.test/v1')])
  targets.candidatesFor(model, 'a').next()
  t.strictSame(
    targets.statesOf(model).map(({ open }) => open),
    [1, 0],
  )
})

const healthCheck = { path: '/', intervalMs: 1000, timeoutMs: 1000, fails: 1, passes: 1 }

/** Three failures open a breaker. */
const settings = { breaker: { failures: 3, coolDownMs: 60_000 } }

const pair = modelOf([
  targetOf('http://a.test/v1', { ...settings, name: 'a' }),
  targetOf('http://b.test/v1', { ...settings, name: 'b', priority: 2 }),
])

function openA(targets: Targets): void {
  for (let i = 0; i < 3; i++) targets.candidatesFor(pair, 'x').next()?.failed()
}

t.test('a target whose breaker is open is not asked', async (t) => {
  handClock(t)
  const targets = new Targets()
  openA(targets)
  const candidates = targets.candidatesFor(pair, 'x')
  t.equal(candidates.next()?.target.name, 'b')
  t.equal(candidates.next(), undefined)
  t.equal(candidates.waitMs, 1000)
  t.match(targets.statesOf(pair)[0]?.show(), { state: 'open', since: Number })
})

t.test('where all targets are known to fail, each is tried once a second', async (t) => {
  const { pass } = handClock(t)
  const targets = new Targets()
  const { signal } = new AbortController()
  const [a, b] = targets.statesOf(pair)
  /** All targets that a request is let through to fail. */
  const failed = () => {
    const seats = asked(targets, pair)
    for (const seat of seats) seat.failed()
    for (const seat of seats) seat.release()
    return names(seats)
  }
  for (let i = 0; i < 3; i++) t.equal(failed(), 'ab')
  for (let second = 0; second < 20; second++) {
    t.equal(failed(), '')
    const refused = targets.candidatesFor(pair, 'x').wait(signal)
    await t.rejects(refused, { code: 'upstream_unavailable', retryAfterMs: 1000 })
    pass(1000)
    t.equal(failed(), 'ab')
  }
  t.ok((a?.waitMs('c') ?? 0) > 30_000, 'with another target it would be left alone for longer')
  pass(1000)
  const back = targets.candidatesFor(pair, 'x').next()
  back?.answered()
  t.equal(a?.waitMs('c'), 0)
  t.equal(names(asked(targets, pair)), 'a', 'and the other one has its long cool-down again')
  t.ok((b?.waitMs('c') ?? 0) > 30_000)
})

t.test('while a probe is under way, others are told to come back soon', async (t) => {
  const { pass } = handClock(t)
  const targets = new Targets()
  const model = modelOf(pair.targets.slice(0, 1))
  for (let i = 0; i < 8; i++) {
    targets.candidatesFor(model, 'x').next()?.failed()
    pass(1000)
  }
  const probe = targets.candidatesFor(model, 'x').next()
  const other = targets.candidatesFor(model, 'x')
  t.ok(other.waitMs > 1000, 'a probe that hangs is not soon followed by another one')
  const refused = other.wait(new AbortController().signal)
  await t.rejects(refused, { code: 'upstream_unavailable', retryAfterMs: 1000 })
  probe?.release()
})

t.test('a target that fails its checks is asked only where no other one is well', async (t) => {
  const targets = new Targets()
  const [a, b] = targets.statesOf(pair)
  if (!a || !b) throw new Error('no states')
  a.isUnhealthy = true
  a.target = { ...a.target, healthCheck }
  t.equal(names(asked(targets, pair)), 'b')
  t.equal(a.show().state, 'unhealthy')
  b.target = { ...b.target, healthCheck, maxConcurrency: 0 }
  const full = targets.candidatesFor(pair, 'x')
  t.equal(full.next(), undefined, 'to wait for the other one is better')
  t.equal(full.waitMs, 0)
  b.isUnhealthy = true
  b.target = { ...b.target, maxConcurrency: 9 }
  t.equal(names(asked(targets, pair)), 'ab')
})

t.test('a failure of the request counts when the request succeeds elsewhere', async (t) => {
  const targets = new Targets()
  const [a] = targets.statesOf(pair)
  for (const [verdict, state] of [
    ['suspected', 'closed'],
    ['refused', 'closed'],
    ['answered', 'open'],
  ] as const) {
    for (let i = 0; i < 3; i++) {
      const candidates = targets.candidatesFor(pair, 'x')
      candidates.next()?.suspected()
      const second = candidates.next()
      t.equal(second?.target.name, 'b')
      second?.[verdict]()
    }
    t.equal(a?.breaker.state, state, verdict)
  }
})

t.test('of an attempt one verdict counts', async (t) => {
  const targets = new Targets()
  const seat = targets.candidatesFor(pair, 'x').next()
  for (let i = 0; i < 5; i++) seat?.failed()
  t.equal(targets.statesOf(pair)[0]?.breaker.failures, 1)
})

t.test('a target that loads its model is asked last, and has not failed', async (t) => {
  const targets = new Targets()
  targets.candidatesFor(pair, 'x').next()?.loads()
  const [a] = targets.statesOf(pair)
  t.strictSame([a?.breaker.failures, a?.show().state], [0, 'loading'])
  t.equal(names(asked(targets, pair)), 'ba')
  const alone = modelOf(pair.targets.slice(0, 1))
  t.equal(names(asked(targets, alone)), 'a', 'better than nobody')
})

t.test(
  'the next target has the room that the failed one leaves, before those that wait',
  async (t) => {
    const targets = new Targets()
    const model = { ...pair, maxConcurrency: 1 }
    const candidates = targets.candidatesFor(model, 'x')
    const first = candidates.next()
    const other = targets.candidatesFor(model, 'y')
    t.equal(other.next(), undefined)
    const waiting = other.wait(new AbortController().signal)
    const second = candidates.next(first)
    t.equal(second?.target.name, 'b')
    t.equal(targets.modelStateOf(model).line.size, 1)
    second?.release()
    t.equal((await soon(waiting)).target.name, 'a')
  },
)

t.test('a request that waits after a failure keeps its place in the line', async (t) => {
  const targets = new Targets()
  const bounded = pair.targets.map((target) => ({ ...target, maxConcurrency: 1 }))
  const model = modelOf(bounded)
  const { signal } = new AbortController()
  const failing = targets.candidatesFor(model, 'x')
  const atA = failing.next()
  const atB = targets.candidatesFor(model, 'y').next()
  const order: string[] = []
  const waits = async (name: string, candidates: typeof failing) => {
    const seat = await candidates.wait(signal)
    order.push(`${name} at ${seat.target.name}`)
    return seat
  }
  const second = waits('second', targets.candidatesFor(model, 'x'))
  const third = waits('third', targets.candidatesFor(model, 'x'))
  t.equal(failing.next(atA), undefined, 'the other target is full')
  await soon(second)
  const first = waits('first', failing)
  atB?.release()
  const seat = await soon(first)
  seat.release()
  await soon(third)
  t.strictSame(order, ['second at a', 'first at b', 'third at b'])
})
