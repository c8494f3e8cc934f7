import t from 'tap'
import { Turns } from '../../src/http/turns.ts'

/** Takes so many pieces; each step is one, since it takes longer than a piece may. */
function work(turns: Turns, ref: string, { pieces, log }: { pieces: number; log: string[] }) {
  let left = pieces
  return turns.take(ref, () => {
    const until = performance.now() + 5
    while (performance.now() < until);
    log.push(ref)
    return --left === 0 ? ref : undefined
  })
}

t.test('between two pieces the event loop turns', async (t) => {
  const turns = new Turns()
  let loops = 0
  const tick = () => {
    loops++
    ticking = setImmediate(tick)
  }
  let ticking = setImmediate(tick)
  await work(turns, 'a', { pieces: 10, log: [] })
  clearImmediate(ticking)
  t.equal(turns.given, 10)
  t.ok(loops >= 9, `${loops} loops`)
})

t.test('accounts take turns, and within one the first is finished first', async (t) => {
  const turns = new Turns()
  const log: string[] = []
  const ended: string[] = []
  const all = [
    work(turns, 'greedy', { pieces: 3, log }).then(() => ended.push('first')),
    work(turns, 'greedy', { pieces: 3, log }).then(() => ended.push('second')),
    work(turns, 'other', { pieces: 2, log }).then(() => ended.push('other')),
  ]
  await Promise.all(all)
  t.strictSame(log.slice(0, 4), ['greedy', 'other', 'greedy', 'other'])
  t.strictSame(ended, ['other', 'first', 'second'])
})

t.test('short work is done in one piece, and who fails keeps nobody waiting', async (t) => {
  const turns = new Turns()
  let steps = 0
  t.equal(await turns.take('a', () => (++steps === 100 ? 'done' : undefined)), 'done')
  t.equal(turns.given, 1)
  const fail = () => {
    throw new Error('broken')
  }
  const failing = turns.take('a', fail)
  const after = turns.take('a', () => 'after')
  await t.rejects(failing, { message: 'broken' })
  t.equal(await after, 'after')
})

t.test('who gives way is behind all other accounts', async (t) => {
  const turns = new Turns()
  const log: string[] = []
  const other = work(turns, 'b', { pieces: 1, log })
  await turns.giveWay('a').then(() => log.push('a'))
  await other
  t.strictSame(log, ['b', 'a'])
})
