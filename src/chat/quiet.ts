// Waits until a socket has delivered what the backend had already sent: that was generated, so it counts even if nobody
// waits for it any more.

import { setImmediate as nextTurn } from 'node:timers/promises'

/** The wait lasts at most so long, and ends when so many turns of the event loop brought nothing. */
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
