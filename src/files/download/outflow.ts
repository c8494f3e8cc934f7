// The content of a file on its way into a store: passed on with back-pressure, ended or destroyed by who passes it.
// Whatever stops the store or the sender stops both.

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
  // A store that has not begun to read, or reads no more, does not listen; without a listener the process would end.
  content.on('error', () => {})
  // Before `put`, which may be what stops.
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
      // Destroyed by the store itself: its `put` says why.
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
