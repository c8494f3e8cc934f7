// The only place that waits between attempts, so that a test can put its own function here. No part of the public
// API.

export interface Clock {
  /** Rejects with the signal's reason when that comes first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

export const clock: Clock = {
  sleep(ms, signal) {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      // It keeps a process alive, unlike a time-out: somebody awaits what comes behind it.
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
