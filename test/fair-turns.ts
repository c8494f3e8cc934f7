import t from 'tap'
import { FairTurns } from '../src/fair-turns.ts'

t.test('what hangs of one account is waited for by that account alone', async (t) => {
  const turns = new FairTurns(2)
  const hanging = Promise.withResolvers<string>()
  const first = turns.run('slow', () => hanging.promise)
  const second = turns.run('slow', () => hanging.promise)
  t.equal(await turns.run('b', async () => 'b'), 'b')
  t.equal(await turns.run('c', async () => 'c'), 'c')
  hanging.resolve('at last')
  t.strictSame(await Promise.all([first, second]), ['at last', 'at last'])
})

t.test('so many at a time, and an account that asks for much waits behind itself', async (t) => {
  const turns = new FairTurns(2)
  const done: string[] = []
  const running: string[] = []
  let most = 0
  let twice = false
  const work = (ref: string) =>
    turns.run(ref, async () => {
      twice ||= running.includes(ref)
      most = Math.max(most, running.push(ref))
      await new Promise(setImmediate)
      running.splice(running.indexOf(ref), 1)
      done.push(ref)
    })
  const greedy = Array.from({ length: 10 }, () => work('greedy'))
  await Promise.all([...greedy, work('b'), work('c'), work('b')])
  t.equal(most, 2)
  t.notOk(twice)
  t.strictSame(done.slice(0, 6).toSorted(), ['b', 'b', 'c', 'greedy', 'greedy', 'greedy'])
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
