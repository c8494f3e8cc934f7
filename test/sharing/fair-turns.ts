import t from 'tap'
import { FairTurns, inTurns } from '../../src/sharing/fair-turns.ts'
import { loopsDuring } from '../fixtures/loops.ts'

t.test('work that hangs delays only its own account', async (t) => {
  const turns = new FairTurns(2)
  const hanging = Promise.withResolvers<string>()
  const first = turns.run('slow', () => hanging.promise)
  const second = turns.run('slow', () => hanging.promise)
  t.equal(await turns.run('b', async () => 'b'), 'b')
  t.equal(await turns.run('c', async () => 'c'), 'c')
  hanging.resolve('at last')
  t.strictSame(await Promise.all([first, second]), ['at last', 'at last'])
})

t.test('so many run at a time, and an account that asks for much waits for itself', async (t) => {
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

t.test('a failure is reported, and the next has its turn', async (t) => {
  const turns = new FairTurns(1)
  const failed = turns.run('a', () => Promise.reject(new Error('no')))
  const next = turns.run('a', async () => 'yes')
  await t.rejects(failed, { message: 'no' })
  t.equal(await next, 'yes')
  t.equal(await turns.run('b', async () => 'free'), 'free')
})

/** Work of this many pieces; each step is one piece, since it takes longer than a piece may. */
function work(ref: string, { pieces, log }: { pieces: number; log: string[] }) {
  let left = pieces
  return inTurns(ref, () => {
    const until = performance.now() + 5
    while (performance.now() < until);
    log.push(ref)
    return --left === 0 ? ref : undefined
  })
}

t.test('between two pieces the event loop turns', async (t) => {
  const loops = await loopsDuring(work('a', { pieces: 10, log: [] }))
  t.ok(loops >= 9, `${loops} loops`)
})

t.test('accounts take turns, and within an account the first is finished first', async (t) => {
  const log: string[] = []
  const ended: string[] = []
  const all = [
    work('greedy', { pieces: 3, log }).then(() => ended.push('first')),
    work('greedy', { pieces: 3, log }).then(() => ended.push('second')),
    work('other', { pieces: 2, log }).then(() => ended.push('other')),
  ]
  await Promise.all(all)
  t.strictSame(log.slice(0, 4), ['greedy', 'other', 'greedy', 'other'])
  t.strictSame(ended, ['other', 'first', 'second'])
})

t.test('a failure delays nobody', async (t) => {
  let steps = 0
  t.equal(await inTurns('a', () => (++steps === 100 ? 'done' : undefined)), 'done')
  const fail = () => {
    throw new Error('broken')
  }
  const failing = inTurns('a', fail)
  const after = inTurns('a', () => 'after')
  await t.rejects(failing, { message: 'broken' })
  t.equal(await after, 'after')
})
