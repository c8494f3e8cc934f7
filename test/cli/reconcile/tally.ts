import t from 'tap'
import { DayTally } from '../../../src/cli/reconcile/tally.ts'

const day = '2026-11-20'
const split = (prompt: number, completion: number) => ({
  split: { prompt, completion },
  tokens: prompt + completion,
})

t.test('counts of the same day and model are added', async (t) => {
  const tally = new DayTally()
  tally.add({ day, model: 'a', ...split(1, 2) })
  tally.add({ day, model: 'a', ...split(10, 20) })
  tally.add({ day, model: '__proto__', ...split(5, 5) })
  tally.add({ day: '2026-11-21', model: 'a', tokens: 7 })
  t.same(tally.sums, [
    { day, model: 'a', ...split(11, 22) },
    { day, model: '__proto__', ...split(5, 5) },
    { day: '2026-11-21', model: 'a', tokens: 7 },
  ])
  tally.add({ day, model: 'a', tokens: 1 })
  t.strictSame(tally.of(day, 'a'), { day, model: 'a', split: undefined, tokens: 34 })
  t.equal(tally.of(day, 'b'), undefined)
})

t.test('a sum that is not exact is refused, and changes nothing', async (t) => {
  const tally = new DayTally()
  tally.add({ day, model: 'a', tokens: Number.MAX_SAFE_INTEGER })
  t.throws(() => tally.add({ day, model: 'a', tokens: 1 }), /too large/)
  t.equal(tally.of(day, 'a')?.tokens, Number.MAX_SAFE_INTEGER)
})

t.test('there is a bound to days and models', async (t) => {
  const tally = new DayTally()
  const fill = () => {
    for (let i = 0; i <= 100_000; i++) tally.add({ day, model: `${i}`, tokens: 1 })
  }
  t.throws(fill, /more than 100000 different days and models/)
  tally.add({ day, model: '0', tokens: 1 })
  t.equal(tally.of(day, '0')?.tokens, 2)
})
