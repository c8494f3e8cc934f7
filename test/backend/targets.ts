// The order in which targets are tried: priority first, then chance by weight.

import t from 'tap'
import { candidates, chooseTarget } from '../../src/backend/targets.ts'
import type { Target } from '../../src/config/config.ts'
import { modelOf, targetOf } from '../fixtures/target.ts'

const target = (name: string, priority: number, weight: number): Target =>
  targetOf('http://x.test/v1', { name, priority, weight })

const names = (targets: readonly Target[]): string => targets.map(({ name }) => name).join('')

/** Evenly spread over [0, 1). */
const steps = Array.from({ length: 100 }, (_, i) => i / 100)

t.test('a lower priority comes first, whatever weights and order are', async (t) => {
  const model = modelOf([
    target('d', 10, 1),
    target('c', 2, 100),
    target('a', 0, 1),
    target('b', 1, 50),
  ])
  for (const step of steps) t.equal(names(candidates(model, () => step)), 'abcd')
})

t.test('within a priority each comes as often as its weight says', async (t) => {
  const model = modelOf([target('a', 0, 3), target('b', 0, 1), target('c', 1, 9)])
  const first = steps.map((step) => chooseTarget(model, () => step).name)
  t.equal(first.filter((name) => name === 'a').length, 75)
  t.equal(first.filter((name) => name === 'b').length, 25)
})

t.test('each target stands in the list once', async (t) => {
  const model = modelOf(['a', 'b', 'c', 'd'].map((name, i) => target(name, 0, i + 1)))
  for (const step of [0, 0.5, 0.999999, 1]) {
    t.equal([...names(candidates(model, () => step))].sort().join(''), 'abcd')
  }
})

t.test('a target with weight 0 comes last', async (t) => {
  const model = modelOf([target('z', 0, 0), target('a', 0, 1)])
  for (const step of steps) t.equal(names(candidates(model, () => step)), 'az')
  t.equal(chooseTarget(modelOf([target('z', 0, 0)])).name, 'z')
})
