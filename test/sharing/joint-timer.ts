// Many timers as one: each is called once, in time, and together with those of its round.

import t from 'tap'
import { JointTimer } from '../../src/sharing/joint-timer.ts'
import { handClock } from '../fixtures/hand-clock.ts'
import { seeded } from '../fixtures/random.ts'

t.test('each is called once: never late, and at most a step early', async (t) => {
  const clock = handClock(t, 'setTimeout')
  const timer = new JointTimer(50)
  const random = seeded(18)
  let called = 0
  let wrong = 0
  for (let i = 0; i < 500; i++) {
    const ms = 100 + random(900)
    const setAt = performance.now()
    timer.set(() => {
      called++
      const after = performance.now() - setAt
      // The clock of the test moves by 10 ms.
      if (after > ms + 10 || after < ms - 50) wrong++
    }, ms)
    clock.pass(random(4) * 10)
  }
  clock.pass(1000)
  t.same([called, wrong], [500, 0])
  clock.pass(1000)
  t.equal(called, 500, 'no second time')
})

t.test('those of a round are called in one turn', async (t) => {
  const clock = handClock(t, 'setTimeout')
  const timer = new JointTimer(50)
  const turns: number[] = []
  for (let i = 0; i < 25; i++) {
    timer.set(() => turns.push(performance.now()), 250)
    clock.pass(10)
  }
  clock.pass(300)
  t.equal(turns.length, 25)
  t.ok(new Set(turns).size <= 6, `${new Set(turns).size} turns`)
})

t.test('what is set again counts alone, and what is cleared is not called', async (t) => {
  const clock = handClock(t, 'setTimeout')
  const timer = new JointTimer(50)
  const called: string[] = []
  const again = () => called.push('again')
  const never = () => called.push('never')
  timer.set(again, 100)
  timer.set(never, 100)
  clock.pass(30)
  timer.set(again, 500)
  timer.clear(never)
  timer.clear(never)
  clock.pass(400)
  t.same(called, [])
  clock.pass(150)
  t.same(called, ['again'])
  timer.set(again, 100)
  clock.pass(150)
  t.same(called, ['again', 'again'], 'it may be set from anew')
})

t.test('a call may set itself, and clear one of its round', async (t) => {
  const clock = handClock(t, 'setTimeout')
  const timer = new JointTimer(50)
  let times = 0
  let others = 0
  const other = () => others++
  const one = () => {
    times++
    timer.clear(other)
    timer.set(one, 100)
  }
  timer.set(one, 100)
  timer.set(other, 100)
  clock.pass(1000)
  timer.clear(one)
  t.ok(times >= 10 && times <= 20, `${times}`)
  t.equal(others, 0)
})
