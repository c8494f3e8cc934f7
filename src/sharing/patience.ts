// Waits for work that may hang, such as a call to a store, but not for ever. Work that is no longer waited for goes on,
// and its result is ignored.

/** Throws the signal's reason when the signal aborts first. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const onAbort = () => reject(signal.reason as Error)
  signal.addEventListener('abort', onAbort)
  if (signal.aborted) onAbort()
  try {
    return await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/** Rejects when the work takes longer. `what` is the name of the work, for the error. */
export function within<T>(work: Promise<T>, ms: number, what: string): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`${what} took more than ${ms} ms`)), ms)
  return Promise.race([work, promise]).finally(() => clearTimeout(timer))
}

/** Resolves with whether the work ends within `ms`. Throws what it throws. */
export async function endsWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<false>((resolve) => (timer = setTimeout(resolve, ms, false)))
  try {
    return await Promise.race([work.then(() => true), late])
  } finally {
    clearTimeout(timer)
  }
}

/** The same, for work whose failure the caller may ignore. */
export async function soon(work: Promise<unknown>, ms: number): Promise<void> {
  await endsWithin(
    work.catch(() => undefined),
    ms,
  )
}

/**
 * A timer that blames nobody when this process stood still: when its time is over, the event loop looks once more for what
 * has come, which may call `refresh` or `clear`; then `onEnd` is called. It may be refreshed for each event of a stream: that
 * only notes the time, and the timer waits for the rest when it fires. To move it each time would cost 3 % of an event.
 */
export class PatientTimer {
  readonly #onEnd: () => void
  readonly #ms: number
  #timer: NodeJS.Timeout
  /** Since the timer was set, by `performance.now`; 0: never. Always a number: V8 then allocates nothing to change it. */
  #refreshedAt = 0
  #late: NodeJS.Immediate | undefined

  constructor(onEnd: () => void, ms: number) {
    this.#onEnd = onEnd
    this.#ms = ms
    this.#timer = setTimeout(this.#onTime, ms)
  }

  /** The time is over. */
  get isLate(): boolean {
    return this.#late !== undefined
  }

  /** The whole time again, also when it is over. */
  refresh(): void {
    if (!this.#late) return void (this.#refreshedAt = performance.now())
    clearImmediate(this.#late)
    this.#late = undefined
    this.#timer = setTimeout(this.#onTime, this.#ms)
  }

  clear(): void {
    clearTimeout(this.#timer)
    clearImmediate(this.#late)
    this.#late = undefined
  }

  readonly #onTime = (): void => {
    const since = this.#refreshedAt
    this.#refreshedAt = 0
    const leftMs = since === 0 ? 0 : since + this.#ms - performance.now()
    if (leftMs > 0) this.#timer = setTimeout(this.#onTime, leftMs)
    else this.#late = setImmediate(this.#onEnd)
  }
}
