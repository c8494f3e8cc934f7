import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { collectStartGarbage } from '../src/start-garbage.ts'
import { bothWays } from './fixtures/both-ways.ts'

bothWays(t, 'start-garbage')('what nobody needs any more is collected', async (t, isPlain) => {
  const needed = { text: 'needed' }
  const [kept, left] = [new WeakRef(needed), new WeakRef({ text: 'left behind' })]
  await nextTurn()
  collectStartGarbage()
  t.equal(left.deref() === undefined, !isPlain)
  t.equal(kept.deref(), needed)
  t.notOk('gc' in globalThis, 'plugins find no such function')
})
