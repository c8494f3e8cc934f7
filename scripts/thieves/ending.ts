// What was started is ended: when its round is over, and on a signal, too.

import type { Test } from 'tap'
import { teardownOf } from '../../test/fixtures/teardown.ts'

type Teardown = Pick<Test, 'teardown'>

const open = new Set<AsyncDisposableStack>()

/** Ends what was started by `run` when it has ended. */
export async function withTeardown<T>(run: (t: Teardown) => Promise<T>): Promise<T> {
  await using undo = new AsyncDisposableStack()
  open.add(undo)
  undo.defer(() => void open.delete(undo))
  return await run(teardownOf(undo))
}

/** To be called once, by a program. */
export function endOnSignals(): void {
  for (const [signal, number] of [['SIGINT', 2] as const, ['SIGTERM', 15] as const]) {
    process.once(signal, () => {
      const ends = [...open].map((undo) => undo.disposeAsync())
      void Promise.allSettled(ends).then(() => process.exit(128 + number))
    })
  }
}
