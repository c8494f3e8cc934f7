import t from 'tap'
import { FairTurns } from '../src/fair-turns.ts'

t.test('so many at a time, and an account that asks for much waits behind itself', async (t) => {
  const turns = new FairTurns(2)
  const done: string[] = []
  let running = 0
  let most = 0
  const work = (ref: string) =>
    turns.run(ref, async () => {
      most = Math.max(most, ++running)
      await new Promise(setImmediate)
      running--
      done.push(ref)
    })
  const greedy = Array.from({ length: 10 }, () => work('greedy'))
  await Promise.all([...greedy, work('b'), work('c'), work('b')])
  t.equal(most, 2)
  t.strictSame(done.slice(0, 7).toSorted(), ['b', 'b', 'c', 'greedy', 'greedy', 'greedy', 'greedy'])
  t.equal(done.length, 13)
})

t.test('what fails is told, and the next has its turn', async (t) => {
  const turns = new FairTurns(1)
  const failed = turns.run('a', () => Promise.reject(new Error('no')))
  const next = turns.run('a', async () => 'yes')
  await t.rejects(failed, { message: 'no' })
  t.equal(await next, 'yes')
  t.equal(await turns.run('b', async () => 'free'), 'free')
})
