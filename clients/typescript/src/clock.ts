// The only place that waits between attempts, so that a test can put its own function here. Not part of the public
// API.

export interface Clock {
  /** Rejects with the signal's reason if the signal fires first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

export const clock: Clock = {
  sleep(ms, signal) {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      // Unlike a time-out, this keeps the process alive: the caller awaits what follows.
      const timer = setTimeout(() => {
        signal?.removeEventListener('abort', leave)
        resolve()
      }, ms)
      const leave = () => {
        clearTimeout(timer)
        reject(signal?.reason as Error)
      }
      signal?.addEventListener('abort', leave, { once: true })
    })
  },
}
