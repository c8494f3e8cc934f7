// The wait for the rest in a socket ends with silence, with the end, and after a limit.

import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { untilQuiet } from '../../src/chat/quiet.ts'

t.test('it ends when nothing comes any more', async (t) => {
  let reads = 0
  let left = 20
  const reading = async () => {
    for (; left > 0; left--) {
      reads++
      await nextTurn()
    }
  }
  const done = reading()
  await untilQuiet(
    () => reads,
    () => false,
  )
  t.equal(left, 0, 'all was read')
  await done
})

t.test('it ends at once where it is over', async (t) => {
  let asked = 0
  await untilQuiet(
    () => asked++,
    () => true,
  )
  t.ok(asked <= 1)
})

t.test('a socket that never falls silent is not waited for', async (t) => {
  let reads = 0
  const before = performance.now()
  await untilQuiet(
    () => reads++,
    () => false,
  )
  t.ok(performance.now() - before >= 99, 'but for as long as may be')
  t.ok(reads > 3)
})
