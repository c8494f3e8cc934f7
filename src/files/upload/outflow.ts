// The content of a file on its way into a store: the sender passes it on with back-pressure, and ends or destroys it.
// When the store or the sender stops, the other one stops too.

import { Readable } from 'node:stream'

export interface Outflow {
  /** Waits while the store has enough. Throws the cause to stop. */
  pass(piece: Buffer): Promise<void>
  /** Waits for the store. */
  end(): Promise<void>
  /** Settles as the store's `put` does. */
  readonly stored: Promise<void>
}

/** `stop` aborts the content with its reason, and is aborted when the store fails. */
export function outflow(put: (content: Readable) => Promise<void>, stop: AbortController): Outflow {
  let hasEnded = false
  let wake: (() => void) | undefined
  const content = new Readable({
    read: () => wake?.(),
    destroy(error, done) {
      wake?.()
      done(error)
    },
  })
  // A store that has not begun to read, or has stopped, has no
  // error listener; without one, an error would end the process.
  content.on('error', () => {})
  // Added before `put` is called, because `put` itself may abort `stop`.
  stop.signal.addEventListener('abort', () => content.destroy(asError(stop.signal.reason)))
  const stored = (async () => put(content))()
  stored.then(
    () => hasEnded || stop.abort(new Error('the store says it is done before the file has ended')),
    (error: unknown) => stop.abort(error),
  )
  return {
    stored,
    async pass(piece) {
      if (!content.push(piece) && !content.destroyed) {
        await new Promise<void>((resolve) => (wake = resolve))
      }
      // The store has destroyed the content: its `put` rejects with the reason.
      if (content.destroyed) await stored
      stop.signal.throwIfAborted()
    },
    async end() {
      stop.signal.throwIfAborted()
      hasEnded = true
      content.push(null)
      await stored
    },
  }
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error('stopped', { cause: reason })
}
