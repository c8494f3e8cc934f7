// Cleans up in the background: uploads that died, files that expired, objects whose deletion failed, files of deleted
// sessions. Every gateway has a sweeper. It takes what is due for a time, so that one gateway does the work; when that
// gateway fails or dies, the work becomes due again.

import type { Redis } from 'ioredis'
import { asked } from '../redis/asked.ts'
import { keys } from '../redis/redis.ts'
import { numberAt, textAt } from '../redis/scripts.ts'
import { announce, lookAgainAfterMs, parseAnnouncement } from './due.ts'
import { createTasks } from './tasks.ts'
import type { TaskOptions } from './tasks.ts'

export interface SweeperOptions
  extends
    Pick<TaskOptions, 'redis' | 'scripts' | 'store' | 'onProblem'>,
    Partial<Pick<TaskOptions, 'storeMs' | 'lookAgainMs'>> {
  /** 0: rounds only by `sweep()`. */
  readonly everyMs?: number
  /** How long taking a thing keeps other sweepers away; a deletion that fails waits twice as long each time. */
  readonly takenMs?: number
}

const mostAccounts = 1000
const accountsAtOnce = 4
const takenAtOnce = 16
const longestWaitMs = 3_600_000

const mostLooks = 5

interface Announced {
  readonly ref: string
  readonly minutes: readonly number[]
}

export class Sweeper {
  readonly #options: Omit<TaskOptions, 'signal'> & Required<SweeperOptions>
  readonly #closing = new AbortController()
  #timer: NodeJS.Timeout | undefined
  #running: Promise<unknown> = Promise.resolve()

  constructor(options: SweeperOptions) {
    const defaults = { everyMs: 30_000, takenMs: 60_000, storeMs: 20_000 }
    this.#options = { ...defaults, lookAgainMs: lookAgainAfterMs, ...options }
    if (this.#options.everyMs > 0) this.#schedule()
  }

  /** One round now. Resolves with how many things it has done; rejects where Redis can't be asked. */
  async sweep(): Promise<number> {
    const sweeping = this.#sweepAccounts()
    this.#running = sweeping.catch(() => undefined) // the caller gets the error
    return await sweeping
  }

  /** Begins no further round; a round under way ends soon, and what it has taken becomes due again. */
  async close(): Promise<void> {
    this.#closing.abort()
    clearTimeout(this.#timer)
    await this.#running
  }

  #schedule(): void {
    // Gateways that were started together must not march in step.
    const waitMs = this.#options.everyMs * (0.75 + Math.random() / 2)
    this.#timer = setTimeout(() => void this.#tick(), waitMs).unref()
  }

  async #tick(): Promise<void> {
    try {
      await this.sweep()
    } catch (error) {
      this.#options.onProblem({ what: 'a round', error })
    }
    if (!this.#closing.signal.aborted) this.#schedule()
  }

  async #sweepAccounts(): Promise<number> {
    const { signal } = this.#closing
    const accounts = await announcedAccounts(this.#options.redis)
    const work = createTasks({ ...this.#options, signal })
    let done = 0
    const next = async () => {
      for (let one = accounts.pop(); one && !signal.aborted; one = accounts.pop()) {
        done += await this.#sweepAccount(one, work)
      }
    }
    await Promise.all(Array.from({ length: accountsAtOnce }, next))
    return done
  }

  /** Takes batches as long as something is done, because an expiry makes an object due. */
  async #sweepAccount(
    announced: Announced,
    work: (ref: string, member: string) => Promise<boolean>,
  ): Promise<number> {
    const { ref } = announced
    let done = 0
    while (!this.#closing.signal.aborted) {
      const members = await this.#takeDue(ref)
      const were = await Promise.all(members.map((member) => work(ref, member)))
      const count = were.filter(Boolean).length
      done += count
      if (count === 0) break
    }
    await this.#withdraw(announced)
    return done
  }

  async #takeDue(ref: string): Promise<readonly string[]> {
    const { scripts, takenMs } = this.#options
    const limits = [`${takenAtOnce}`, `${takenMs}`, `${longestWaitMs}`]
    const reply = await scripts.run('claim', [keys.due(ref)], limits)
    return reply.values.slice(2).map((_member, at) => textAt(reply, 2 + at))
  }

  /** Removes announcements that are no longer needed, and makes the next one. */
  async #withdraw({ ref, minutes }: Announced): Promise<void> {
    const { redis, scripts } = this.#options
    const latest = Math.max(...minutes)
    const names = [keys.storage(ref), keys.due(ref)]
    let announcedMinute = 0
    for (let looks = 0; looks < mostLooks; looks++) {
      const reply = await scripts.run('close', names, [`${latest}`, `${announcedMinute}`])
      if (reply.word === 'announce') {
        announcedMinute = numberAt(reply, 2)
        await announce(redis, { ref, minute: announcedMinute })
        continue
      }
      const needless = reply.word === 'ok' ? minutes : minutes.filter((minute) => minute < latest)
      const members = needless.map((minute) => `${minute}:${ref}`)
      if (members.length > 0) await asked(redis.zrem(keys.dueAccounts, ...members))
      return
    }
  }
}

/** In random order, so that several sweepers do not work on the same account. */
async function announcedAccounts(redis: Redis): Promise<Announced[]> {
  const [seconds] = await asked(redis.time())
  const until = Number(seconds) * 1000
  const members = await asked(
    redis.zrangebyscore(keys.dueAccounts, '-inf', until, 'LIMIT', 0, mostAccounts),
  )
  const broken = members.filter((member) => !parseAnnouncement(member))
  if (broken.length > 0) await asked(redis.zrem(keys.dueAccounts, ...broken))
  const byRef = Map.groupBy(
    members.flatMap((member) => parseAnnouncement(member) ?? []),
    ({ ref }) => ref,
  )
  return [...byRef]
    .map(([ref, all]) => ({ ref, minutes: all.map(({ minute }) => minute) }))
    .toSorted(() => Math.random() - 0.5)
}
