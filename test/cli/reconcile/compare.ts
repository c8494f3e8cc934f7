import t from 'tap'
import { compare, parseTolerance } from '../../../src/cli/reconcile/compare.ts'
import { DayTally } from '../../../src/cli/reconcile/tally.ts'
import type { DayCount } from '../../../src/cli/reconcile/tally.ts'

const day = '2026-11-20'
const count = (model: string, prompt: number, completion: number): DayCount => ({
  day,
  model,
  split: { prompt, completion },
  tokens: prompt + completion,
})

function tallyOf(...counts: readonly DayCount[]): DayTally {
  const tally = new DayTally()
  for (const one of counts) tally.add(one)
  return tally
}

t.test('a tolerance is a share of the larger number, or tokens', async (t) => {
  const cases = [
    ['0', 5, 5, true],
    ['0', 5, 6, false],
    ['3', 5, 8, true],
    ['3', 9, 5, false],
    ['1%', 99, 100, true],
    ['1%', 100, 99, true],
    ['1%', 98, 100, false],
    ['0.5%', 199, 200, true],
    ['50%', 0, 1, false],
    ['100%', 0, 1, true],
    ['0%', 0, 0, true],
  ] as const
  for (const [text, a, b, isTolerated] of cases) {
    t.equal(parseTolerance(text)(a, b), isTolerated, `${text}: ${a}, ${b}`)
  }
  for (const text of ['', '%', '-1', '1,5%', '101%', '1e3', 'all']) {
    t.throws(() => parseTolerance(text), { message: /no tolerance/ })
  }
})

t.test('both kinds of tokens are compared, by day and model', async (t) => {
  const backend = tallyOf(count('b', 10, 5), count('a', 7, 2))
  const ledger = tallyOf(count('a', 7, 3), count('b', 10, 5))
  t.same(compare(backend, ledger, parseTolerance('0')), [
    { day, model: 'a', count: 'prompt', backend: 7, ledger: 7, difference: 0, parts: false },
    { day, model: 'a', count: 'completion', backend: 2, ledger: 3, difference: 1, parts: true },
    { day, model: 'b', count: 'prompt', backend: 10, ledger: 10, difference: 0, parts: false },
    { day, model: 'b', count: 'completion', backend: 5, ledger: 5, difference: 0, parts: false },
  ])
})

t.test('sums are compared where the backend has only sums', async (t) => {
  const backend = tallyOf({ day, model: 'a', tokens: 10 })
  const ledger = tallyOf(count('a', 7, 3), count('b', 1, 1))
  const found = compare(backend, ledger, parseTolerance('0'))
  t.match(found, [
    { model: 'a', count: 'tokens', difference: 0, parts: false },
    { model: 'b', count: 'tokens', ledger: 2, difference: 2, parts: true },
  ])
  t.equal(found[1]?.backend, undefined)
})

t.test('what only one of them has parts', async (t) => {
  const found = compare(tallyOf(count('a', 1, 1)), tallyOf(count('b', 1, 0)), parseTolerance('0'))
  t.match(found, [
    { model: 'a', count: 'prompt', backend: 1, difference: -1, parts: true },
    { model: 'a', count: 'completion', difference: -1, parts: true },
    { model: 'b', count: 'prompt', ledger: 1, difference: 1, parts: true },
    { model: 'b', count: 'completion', ledger: 0, difference: 0, parts: false },
  ])
})
