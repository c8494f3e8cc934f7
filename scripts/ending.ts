// Ends what was started: when its round is over, and also on a signal.

import { teardownOf } from '../test/fixtures/teardown.ts'
import type { Teardown } from '../test/fixtures/teardown.ts'

const open = new Set<AsyncDisposableStack>()
let ending: Promise<never> | undefined

/** Runs `run`, then ends everything that `run` has started. */
export async function withTeardown<T>(run: (t: Teardown) => Promise<T>): Promise<T> {
  try {
    return await runAndEnd(run)
  } catch (error) {
    throw error instanceof SuppressedError ? new AggregateError(failures(error)) : error
  }
}

/** The failure of the run, then those of the teardown, because Node prints neither of a SuppressedError. */
function failures(error: unknown): unknown[] {
  if (!(error instanceof SuppressedError)) return [error]
  return [...failures(error.suppressed), ...failures(error.error)]
}

async function runAndEnd<T>(run: (t: Teardown) => Promise<T>): Promise<T> {
  await using undo = new AsyncDisposableStack()
  open.add(undo)
  undo.defer(() => void open.delete(undo))
  const { teardown } = teardownOf(undo)
  // What is started after a signal has come is ended at once.
  const end = (fn: () => unknown) => (undo.disposed ? void fn() : teardown(fn))
  try {
    return await run({ teardown: end })
  } catch (error) {
    // A failure that was caused by the end of everything is not reported. `return Promise.reject()` would end the process
    // as unhandled while the teardown is under way.
    if (ending) return ending
    throw error
  }
}

/** A program calls this once. */
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
