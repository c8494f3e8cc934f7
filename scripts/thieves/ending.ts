// What was started is ended: when its round is over, and on a signal, too.

import type { Test } from 'tap'
import { teardownOf } from '../../test/fixtures/teardown.ts'

type Teardown = Pick<Test, 'teardown'>

const open = new Set<AsyncDisposableStack>()
let ending: Promise<never> | undefined

/** Ends what was started by `run` when it has ended. */
export async function withTeardown<T>(run: (t: Teardown) => Promise<T>): Promise<T> {
  await using undo = new AsyncDisposableStack()
  open.add(undo)
  undo.defer(() => void open.delete(undo))
  const { teardown } = teardownOf(undo)
  // What is started after a signal came is ended at once.
  const end = (fn: () => unknown) => (undo.disposed ? void fn() : teardown(fn))
  try {
    return await run({ teardown: end })
  } catch (error) {
    // What fails because all was ended under it is nobody's news.
    return ending ?? Promise.reject(error)
  }
}

/** To be called once, by a program. */
export function endOnSignals(): void {
  for (const [signal, number] of [['SIGINT', 2] as const, ['SIGTERM', 15] as const]) {
    process.once(signal, () => {
      ending ??= endAll(128 + number)
    })
  }
}

async function endAll(code: number): Promise<never> {
  await Promise.allSettled([...open].map((undo) => undo.disposeAsync()))
  process.exit(code)
}
