// Two clocks: Redis' time as far as it is known here, and the time during which Redis was seen to answer.

/** Redis' time: this machine's clock, corrected by the times in the replies. */
export function createRedisClock(now: () => number = Date.now) {
  let offsetMs = 0
  return {
    now: () => now() + offsetMs,
    learn: (nowMs: number) => void (offsetMs = nowMs - now()),
  }
}

export type ConnectedClock = ReturnType<typeof createConnectedClock>

/** Grows only between good replies on one connection, to all of Redis. A write that is old enough by this clock is kept by Redis. */
export function createConnectedClock(
  link: { readonly isWhole: boolean },
  now: () => number = () => performance.now(),
) {
  let ageMs = 0
  let lastGood: number | undefined
  return {
    get ageMs(): number {
      return ageMs
    },
    good(): void {
      // The others go on answering while a primary is away: that time must not count at the next reply.
      if (!link.isWhole) return void (lastGood = undefined)
      const at = now()
      if (lastGood !== undefined) ageMs += at - lastGood
      lastGood = at
    },
    lost: () => void (lastGood = undefined),
  }
}
