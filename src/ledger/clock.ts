// Two clocks: Redis' time as far as it is known here, and the time during which Redis was seen to answer.

/** Redis' time: this machine's clock, corrected by the times in the replies. */
export function createRedisClock(now: () => number = Date.now) {
  let offsetMs: number | undefined
  return {
    /** Whether a reply has told the time. */
    get isSet(): boolean {
      return offsetMs !== undefined
    },
    now: () => now() + (offsetMs ?? 0),
    learn: (nowMs: number) => void (offsetMs = nowMs - now()),
  }
}

export type RedisClock = Readonly<ReturnType<typeof createRedisClock>>

export type ConnectedClock = ReturnType<typeof createConnectedClock>

/** Counts only the time between two good replies on the same connection, while no part of Redis is away. So Redis has surely kept a write that is old enough by this clock. */
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
      // While one primary of a Cluster is away, the others answer: this time must not count at the next reply.
      if (!link.isWhole) return void (lastGood = undefined)
      const at = now()
      if (lastGood !== undefined) ageMs += at - lastGood
      lastGood = at
    },
    lost: () => void (lastGood = undefined),
  }
}
