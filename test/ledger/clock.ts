import t from 'tap'
import { createConnectedClock, createRedisClock } from '../../src/ledger/clock.ts'

t.test("Redis' time is learnt from its replies", async (t) => {
  let local = 5000
  const clock = createRedisClock(() => local)
  t.equal(clock.now(), 5000)
  clock.learn(7000)
  t.equal(clock.now(), 7000)
  local += 1
  t.equal(clock.now(), 7001)
})

t.test('connected time grows between replies of one connection only', async (t) => {
  let now = 0
  const clock = createConnectedClock({ isWhole: true }, () => now)
  const at = (ms: number) => {
    now = ms
    clock.good()
    return clock.ageMs
  }
  t.equal(at(1000), 0)
  t.equal(at(1500), 500)
  clock.lost()
  t.equal(at(9000), 500)
  t.equal(at(9010), 510)
})

t.test('connected time stands still while a part of a Cluster is away', async (t) => {
  const link = { isWhole: true }
  let now = 0
  const clock = createConnectedClock(link, () => now)
  const at = (ms: number) => {
    now = ms
    clock.good()
    return clock.ageMs
  }
  at(1000)
  t.equal(at(1500), 500)
  link.isWhole = false
  t.equal(at(1600), 500)
  t.equal(at(60_000), 500, 'the other primaries answer')
  link.isWhole = true
  t.equal(at(61_000), 500, 'the time without the part is left out')
  t.equal(at(61_010), 510)
})
