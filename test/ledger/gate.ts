// Closed until this process has taken up its holds again, after every loss of the connection.

import t from 'tap'
import { createGate } from '../../src/ledger/gate.ts'
import { until } from '../fixtures/until.ts'

function open(recover: () => Promise<void>) {
  const state = { up: true, isWhole: true, lost: 0, problems: 0 }
  const ready: (() => void)[] = []
  const lost: (() => void)[] = []
  const link = {
    get up() {
      return state.up
    },
    get isWhole() {
      return state.isWhole
    },
    onReady: (listener: () => void) => void ready.push(listener),
    onLost: (listener: () => void) => void lost.push(listener),
  }
  const gate = createGate(Object(link), {
    onProblem: () => void state.problems++,
    connected: { lost: () => void state.lost++ },
    recover,
  })
  const isOpen = () => {
    let passed = true
    try {
      gate.pass()
    } catch {
      passed = false
    }
    if (gate.isOpen !== passed) throw new Error('it says one thing and does another')
    return passed
  }
  return { gate, state, isOpen, ready: () => ready[0]?.(), lose: () => lost[0]?.() }
}

t.test('it opens when all holds are taken up, and not before', async (t) => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const { gate, isOpen, lose, ready, state } = open(() => promise)
  void gate.start()
  t.equal(isOpen(), false)
  t.throws(() => gate.pass(), { code: 'ledger_unavailable' })
  resolve()
  await until(isOpen)
  lose()
  t.equal(isOpen(), false)
  t.equal(state.lost, 1)
  ready()
  await until(isOpen)
  gate.stop()
  t.equal(isOpen(), false)
})

t.test('tries again what failed while the connection stands', async (t) => {
  let failures = 2
  const { gate, isOpen, state } = open(async () => {
    if (failures-- > 0) throw new Error('not yet')
  })
  void gate.start()
  await until(isOpen)
  t.equal(state.problems, 1, 'told once, since it was the same each time')
})

t.test('one primary of a Cluster is away: the accounts of the others go on', async (t) => {
  let isAway = false
  let recoveries = 0
  const { gate, isOpen, ready, state } = open(async () => {
    recoveries++
    if (isAway) throw new Error('away')
  })
  void gate.start()
  await until(isOpen)
  isAway = true
  state.isWhole = false
  ready() // another primary has connected
  t.equal(isOpen(), true)
  await new Promise(setImmediate)
  t.equal(isOpen(), true)
  t.equal(state.problems, 0)
  isAway = false
  state.isWhole = true
  ready()
  t.equal(recoveries, 3, 'the holds of the one that is back are taken up')
  t.equal(isOpen(), true)
})

t.test('a recovery on a connection that is lost opens nothing', async (t) => {
  const first = Promise.withResolvers<void>()
  let calls = 0
  const { gate, isOpen, lose, ready } = open(() =>
    calls++ === 0 ? first.promise : new Promise(() => undefined),
  )
  void gate.start()
  lose()
  ready()
  first.resolve()
  await first.promise
  await new Promise(setImmediate)
  t.equal(isOpen(), false)
})
