// Two clocks: Redis' time as far as it is known here, and the time during which Redis was seen to answer.

/** Redis' time: this machine's clock, corrected by the times in the replies. */
export interface RedisClock {
  now(): number
  learn(nowMs: number): void
}

export function createRedisClock(now: () => number = Date.now): RedisClock {
  let offsetMs = 0
  return {
    now: () => now() + offsetMs,
    learn(nowMs) {
      offsetMs = nowMs - now()
    },
  }
}

/** Grows only between good replies on one connection. A write that is old enough by this clock is kept by Redis. */
export interface ConnectedClock {
  readonly ageMs: number
  good(): void
  lost(): void
}

export function createConnectedClock(now: () => number = () => performance.now()): ConnectedClock {
  let ageMs = 0
  let lastGood: number | undefined
  return {
    get ageMs() {
      return ageMs
    },
    good() {
      const at = now()
      if (lastGood !== undefined) ageMs += at - lastGood
      lastGood = at
    },
    lost() {
      lastGood = undefined
    },
  }
}
