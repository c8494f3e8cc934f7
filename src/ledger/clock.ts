// Two clocks: Redis' time as far as it is known here, and the time during which Redis was seen to answer.

/** Redis' time: this machine's, corrected by what the replies say. */
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

/** Grows only between good replies of one connection: what Redis had in hand for so long, it has kept. */
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
