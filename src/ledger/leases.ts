// The holds of this process: what they have used goes to Redis now and then, which also renews their leases.
// A hold that Redis no longer knows (its gateway was frozen, or Redis forgot it) is opened again for what is left. What
// holds have used is gauged ahead of each round, but no lease waits long for that.

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Hold } from './hold.ts'
import { wholeAmount, wholeCounts } from './price.ts'
import { textAt } from '../redis/scripts.ts'
import { accountKeys } from '../redis/keys.ts'
import { LinkedList } from '../sharing/linked-list.ts'
import { soon } from '../sharing/patience.ts'
import type { LedgerScripts } from './library.ts'

export interface LeasesOptions {
  readonly scripts: LedgerScripts
  readonly leaseMs: number
  readonly isUp: () => boolean
  /** Opens a lost hold again for what is left of it. */
  readonly openAgain: (hold: Hold) => Promise<void>
  /** After each round. */
  readonly onTick: () => Promise<void>
}

const chunk = 100
/** Gauging lets other work go on after this time. */
const turnMs = 1

export class Leases {
  readonly #options: LeasesOptions
  readonly #holds = new LinkedList<Hold>()
  #timer: NodeJS.Timeout | undefined
  /** A pass over all holds that has not ended. */
  #gauging: Promise<void> | undefined
  #isRunning = false

  constructor(options: LeasesOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#holds.size
  }

  get holds(): readonly Hold[] {
    return [...this.#holds.members()]
  }

  add(hold: Hold): void {
    this.#holds.add(hold)
  }

  /** Returns false when the hold was not there, because it is settled already. */
  remove(hold: Hold): boolean {
    return this.#holds.delete(hold)
  }

  /** Renews all leases. Resolves with the holds that Redis does not know; rejects when Redis could not be asked. */
  async renew(): Promise<readonly Hold[]> {
    const byRef = Map.groupBy(this.#holds.members(), (hold) => hold.fields.ref)
    const calls: Promise<readonly Hold[]>[] = []
    for (const [ref, all] of byRef) {
      for (let i = 0; i < all.length; i += chunk) {
        const call = this.#renewSome(ref, all.slice(i, i + chunk))
        // The call is awaited below; until then its failure must not count as unhandled.
        call.catch(() => undefined)
        calls.push(call)
      }
      // A long burst of commands must not hold up the streams of this process.
      if (calls.length % chunk === 0) await new Promise((resolve) => setImmediate(resolve))
    }
    return (await Promise.all(calls)).flat()
  }

  /** Opens lost holds again, or stops their work. */
  async reopen(lost: readonly Hold[]): Promise<void> {
    await Promise.all(lost.map(this.#options.openAgain))
  }

  start(): void {
    this.#isRunning = true
    this.#schedule()
  }

  stop(): void {
    this.#isRunning = false
    clearTimeout(this.#timer)
  }

  async #renewSome(ref: string, some: readonly Hold[]): Promise<readonly Hold[]> {
    const { scripts, leaseMs } = this.#options
    const args = [`${leaseMs}`, ...some.map(progressWords)]
    const reply = await scripts.run('checkpoint', accountKeys(ref), args)
    const isSuspended = textAt(reply, 2) === 'suspended'
    const lost: Hold[] = []
    for (const [i, hold] of some.entries()) {
      const isSettled = !hold.isListed
      if (isSettled) continue
      if (isSuspended) hold.stop('account_suspended')
      else hold.stopIfSpent()
      if (textAt(reply, 3 + i) === 'gone') lost.push(hold)
    }
    return lost
  }

  #schedule(): void {
    // The next round comes after 1 ms for each hold, at least 1 s, at most a third of a lease; then up to a fifth sooner, so
    // that gateways do not renew in step.
    const ms = Math.min(Math.max(1000, this.#holds.size), this.#options.leaseMs / 3)
    this.#timer = setTimeout(() => void this.#tick(), ms * (0.8 + Math.random() * 0.2)).unref()
  }

  async #gaugeAll(): Promise<void> {
    let sinceMs = performance.now()
    for (const hold of this.#holds.members()) {
      if (hold.isListed) await hold.gauge()
      if (performance.now() - sinceMs < turnMs) continue
      await nextTurn()
      sinceMs = performance.now()
    }
  }

  async #renewAll(): Promise<void> {
    this.#gauging ??= this.#gaugeAll().finally(() => (this.#gauging = undefined))
    await soon(this.#gauging, this.#options.leaseMs / 10)
    await this.reopen(await this.renew())
  }

  async #tick(): Promise<void> {
    const { isUp, onTick } = this.#options
    // If Redis is away or refuses, the next round or the reconnect renews. The upkeep runs all the same.
    if (isUp()) await this.#renewAll().catch(() => undefined)
    await onTick().catch(() => undefined)
    if (this.#isRunning) this.#schedule()
  }
}

/** What a checkpoint says of a hold. */
export function progressWords({ id, progress }: Hold): string {
  const { prompt, cached, completion } = wholeCounts(progress)
  return `${id} ${wholeAmount(progress.charge)} ${prompt} ${cached} ${completion}`
}
