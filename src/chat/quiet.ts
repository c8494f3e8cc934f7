// Waits until a socket has given what it had: what a backend sent already was generated, also where nobody waits for it
// any more.

import { setImmediate as nextTurn } from 'node:timers/promises'

/** What has come is read for so long, or until so many turns of the event loop brought nothing. */
const mostMs = 100
const quietTurns = 3

/** `reads` counts what came; `isOver` ends the wait at once. */
export async function untilQuiet(reads: () => number, isOver: () => boolean): Promise<void> {
  const endsAt = performance.now() + mostMs
  let seen = reads()
  for (let quiet = 0; quiet < quietTurns && !isOver() && performance.now() < endsAt;) {
    await nextTurn()
    quiet = reads() === seen ? quiet + 1 : 0
    seen = reads()
  }
}
