// The holds of this process: what they have used goes to Redis now and then, which also renews their leases.
// A hold that Redis no longer knows (its gateway was frozen, or Redis forgot it) is opened again for what is left.

import type { Hold } from './hold.ts'
import { keys } from '../redis.ts'
import { textAt } from './scripts.ts'
import type { Scripts } from './scripts.ts'

export interface Leases {
  readonly size: number
  add(hold: Hold): void
  /** False where it was not there: it is settled already. */
  remove(hold: Hold): boolean
  /** Renews all. Answers those that Redis does not know; rejects where Redis could not be asked. */
  renew(): Promise<readonly Hold[]>
  /** Opens lost holds again, or stops their work. */
  reopen(lost: readonly Hold[]): Promise<void>
  start(): void
  stop(): void
}

export interface LeasesOptions {
  readonly scripts: Scripts
  readonly leaseMs: number
  readonly isUp: () => boolean
  /** Opens the hold for what is left of it. */
  readonly openAgain: (hold: Hold) => Promise<void>
  /** After each round. */
  readonly onTick: () => Promise<void>
}

const chunk = 100

export function createLeases(options: LeasesOptions): Leases {
  const { scripts, leaseMs, isUp, openAgain, onTick } = options
  const holds = new Map<string, Hold>()
  let timer: NodeJS.Timeout | undefined
  let isRunning = false

  const renewSome = async (ref: string, some: readonly Hold[]): Promise<readonly Hold[]> => {
    const names = [keys.account(ref), keys.holds(ref), keys.open(ref)]
    const reply = await scripts.run('checkpoint', names, [`${leaseMs}`, ...some.map(progressOf)])
    const isSuspended = textAt(reply, 2) === 'suspended'
    return some.filter((hold, i) => {
      if (!holds.has(hold.id)) return false
      if (isSuspended) hold.stop('account_suspended')
      else hold.stopIfSpent()
      return textAt(reply, 3 + i) === 'gone'
    })
  }
  const renew = async () => {
    const byRef = Map.groupBy(holds.values(), (hold) => hold.fields.ref)
    const calls: Promise<readonly Hold[]>[] = []
    for (const [ref, all] of byRef) {
      for (let i = 0; i < all.length; i += chunk) {
        const call = renewSome(ref, all.slice(i, i + chunk))
        // It is awaited below; until then a failure must not count as unhandled.
        call.catch(() => undefined)
        calls.push(call)
      }
      // A long burst of commands must not hold up the streams of this process.
      if (calls.length % chunk === 0) await new Promise((resolve) => setImmediate(resolve))
    }
    return (await Promise.all(calls)).flat()
  }
  const reopen = async (lost: readonly Hold[]) => {
    await Promise.all(lost.map(openAgain))
  }
  const tick = async () => {
    try {
      if (isUp()) await reopen(await renew())
      await onTick()
    } catch {
      // Redis is away: the next round or the reconnect does it.
    }
    if (isRunning) schedule()
  }
  const schedule = () => {
    // Holds ÷ 1000 in seconds, but thrice within a lease; jittered so that gateways don't march in step.
    const ms = Math.min(Math.max(1000, holds.size), leaseMs / 3)
    timer = setTimeout(() => void tick(), ms * (0.8 + Math.random() * 0.2)).unref()
  }
  return {
    get size() {
      return holds.size
    },
    add(hold) {
      holds.set(hold.id, hold)
    },
    remove(hold) {
      return holds.delete(hold.id)
    },
    renew,
    reopen,
    start() {
      isRunning = true
      schedule()
    },
    stop() {
      isRunning = false
      clearTimeout(timer)
    },
  }
}

const maxTokens = 1e12

/** Whole and within what every sum can take, whatever a backend reported. */
export function tokens(count: number): number {
  return Math.min(maxTokens, Math.max(0, Math.ceil(count) || 0))
}

export function amount(count: number): number {
  return Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, Math.ceil(count) || 0))
}

function progressOf({ id, progress }: Hold): string {
  const { charge, prompt, cached, completion } = progress
  return `${id} ${amount(charge)} ${tokens(prompt)} ${tokens(cached)} ${tokens(completion)}`
}
