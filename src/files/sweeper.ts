// Cleans up in the background: uploads that died, files that expired, objects whose deletion failed, files of deleted
// sessions. Every gateway has a sweeper. What one sweeper takes, the others leave alone for a time, so that one gateway
// does the work; when that gateway fails or dies, the work becomes due again.

import type { Redis } from '../redis/client.ts'
import { asked } from '../redis/asked.ts'
import { keys } from '../redis/keys.ts'
import { numberAt, textAt } from '../redis/scripts.ts'
import { unlessAborted } from '../sharing/patience.ts'
import type { ObjectStore } from '../store/store.ts'
import { announce, lookAgainAfterMs, parseAnnouncement, parseDue } from './due.ts'
import type { DueKind } from './due.ts'
import { objectName } from './file-row.ts'
import type { FileScripts } from './library.ts'
import { dropFilesOf, rowKeys } from './removal.ts'

export interface SweeperOptions {
  readonly redis: Redis
  readonly scripts: FileScripts
  readonly store: Pick<ObjectStore, 'remove' | 'abandon'>
  /** 0: rounds only by `sweep()`. */
  readonly everyMs?: number
  /** How long taking a thing keeps other sweepers away; a deletion that fails waits twice as long each time. */
  readonly takenMs?: number
  /** A deletion that takes longer has failed. */
  readonly storeMs?: number
  /** How long after a dead upload was cleaned up its object is looked for once more. */
  readonly lookAgainMs?: number
  onProblem(problem: TaskProblem): void
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
  readonly #options: Required<SweeperOptions>
  readonly #closing = new AbortController()
  #timer: NodeJS.Timeout | undefined
  #running: Promise<unknown> = Promise.resolve()

  constructor(options: SweeperOptions) {
    const defaults = { everyMs: 30_000, takenMs: 60_000, storeMs: 20_000 }
    this.#options = { ...defaults, lookAgainMs: lookAgainAfterMs, ...options }
    if (this.#options.everyMs > 0) this.#schedule()
  }

  /** Makes one round now. Resolves with how many things it has done; rejects where Redis can't be asked. */
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
    const names = [keys.storage(ref), keys.due(ref), keys.account(ref)]
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

export interface TaskProblem {
  /** What failed, for the log. */
  readonly what: string
  readonly ref?: string
  readonly error: unknown
}

export interface TaskOptions extends Omit<Required<SweeperOptions>, 'everyMs' | 'takenMs'> {
  readonly signal: AbortSignal
}

interface Thing {
  readonly ref: string
  readonly id: string
  /** As it stands in due. */
  readonly member: string
}

/** May run again, and on two gateways at once: the later one changes nothing. */
type Task = (options: TaskOptions, thing: Thing) => Promise<unknown>

/** A store that failed so often without a success is left alone for the rest of the round. */
const mostFailures = 16

/** The task returns false when it failed: the thing becomes due again, because it was taken only for a time. */
export function createTasks(
  options: TaskOptions,
): (ref: string, member: string) => Promise<boolean> {
  const guarded = { ...options, store: limited(options) }
  let failures = 0
  return async (ref, member) => {
    const { kind, id } = parseDue(member)
    const needsStore = kind === 'object' || kind === 'abandoned'
    if (needsStore && failures >= mostFailures) return false
    try {
      const task = tasks.get(kind) ?? forget
      await task(guarded, { ref, id, member })
      if (needsStore) failures = 0
      return true
    } catch (error) {
      if (needsStore) failures++
      if (!options.signal.aborted) options.onProblem({ what: member, ref, error })
      return false
    }
  }
}

const tasks: ReadonlyMap<string, Task> = new Map<DueKind, Task>([
  ['abandoned', abandon],
  ['object', removeObject],
  ['expiry', expire],
  ['session', followSession],
])

/** A frozen process may still put the object later, and end before removing it: so the object is looked for once more. */
async function abandon(options: TaskOptions, thing: Thing) {
  const { scripts, store, lookAgainMs } = options
  const { ref, id, member } = thing
  if (!(await hasRow(options, thing))) await store.abandon(objectName(ref, id))
  const words = [id, member, `${lookAgainMs}`]
  await scripts.run('forget', [keys.storage(ref), keys.due(ref)], words)
}

async function removeObject(options: TaskOptions, thing: Thing) {
  const { ref, id } = thing
  if (!(await hasRow(options, thing))) await options.store.remove(objectName(ref, id))
  await forget(options, thing)
}

/** A sweeper must remove only objects without a row. */
async function hasRow({ redis }: TaskOptions, { ref, id }: Thing): Promise<boolean> {
  return (await asked(redis.hexists(keys.file(ref, id), 'bytes'))) === 1
}

const toldS = 7 * 86_400

/** Replaces the row by a tombstone; after that, the object is due. */
async function expire({ redis, scripts }: TaskOptions, { ref, id }: Thing) {
  const session = (await asked(redis.hget(keys.file(ref, id), 'session'))) ?? ''
  await scripts.run('expire', rowKeys({ ref, id, session }), [id, `${toldS}`])
}

/** Removes the rows of a session that is gone; after that, their objects are due. */
async function followSession({ redis, scripts }: TaskOptions, { ref, id }: Thing) {
  const names = [keys.session(ref, id), keys.sessionFiles(ref, id), keys.due(ref)]
  const { word } = await scripts.run('outlive', names, [id])
  if (word === 'gone') await dropFilesOf({ redis, scripts, retryMs: 0 }, ref, id)
}

async function forget({ redis }: TaskOptions, { ref, member }: Thing) {
  await asked(redis.zrem(keys.due(ref), member))
}

/** A call fails when it takes longer than `storeMs`, or when the sweeper closes. */
function limited({ store, storeMs, signal }: TaskOptions): TaskOptions['store'] {
  const within = (work: Promise<void>) =>
    unlessAborted(work, AbortSignal.any([signal, AbortSignal.timeout(storeMs)]))
  return {
    remove: (name) => within(store.remove(name)),
    abandon: (name) => within(store.abandon(name)),
  }
}
