// Goes over all accounts: has the objects removed that no session names any more (unnamed.ts), and puts sessions to sleep
// that nobody has used for long. Costs Redis one command for an account, and for each 200 old sessions a script and
// another command.

import type { Config } from '../../config/config.ts'
import { duration } from '../../config/schema.ts'
import { settingsOf } from '../../config/settings.ts'
import { refsWithRests } from '../../ledger/walk.ts'
import type { Log } from '../../log.ts'
import type { Metrics } from '../../metrics.ts'
import { asked } from '../../redis/asked.ts'
import type { Redis } from '../../redis/client.ts'
import { keys } from '../../redis/keys.ts'
import type { ObjectStore } from '../../store/store.ts'
import { Attempts } from './attempts.ts'
import { putToSleep } from './sleeping.ts'
import type { SleepingOptions } from './sleeping.ts'
import { removeUnnamed } from './unnamed.ts'

const hourMs = 3_600_000

export const sleepSettings = settingsOf('sessions', {
  archive_after: duration({ min: 0, max: 10 * 8760 * hourMs })
    .refine((ms) => ms === 0 || ms >= hourMs, { error: 'write 0s, or at least 1h' })
    .prefault('0s')
    .describe(
      'The messages of a session that was not changed for this long (or for `replay_keep`, if that is longer) go into the store, and come back when they are read or the session goes on; `0s`: never.',
    ),
  replay_keep: duration()
    .prefault('15m')
    .describe("How long after a message's end its stream can still be read again."),
})

/**
 * How long a session has to rest; 0: none falls asleep. Never shorter than streams are kept, because whoever deletes a
 * session finds its streams by its messages.
 */
export function restMs(config: Pick<Config, 'plugins'>): number {
  const { archive_after, replay_keep } = sleepSettings.of(config)
  return archive_after === 0 ? 0 : Math.max(archive_after, replay_keep)
}

export interface RoundsOptions extends SleepingOptions {
  readonly store: ObjectStore
  readonly log: Pick<Log, 'warn'>
  readonly metrics: Pick<Metrics, 'sessionsSlept'>
}

export interface Round {
  /** How many sessions were put to sleep. */
  readonly slept: number
  /** How many objects were removed. */
  readonly removed: number
}

const accountsAtOnce = 100
const sessionsALook = 200
/** Each may have a whole session in memory. */
const sleepsAtOnce = 2
/** A round is due every hour, on each gateway. */
const walkMs = 50 * 60_000

export class Rounds {
  readonly #options: RoundsOptions
  readonly #closing = new AbortController()
  #running: Promise<unknown> = Promise.resolve()

  constructor(options: RoundsOptions) {
    this.#options = options
  }

  /** Makes a round unless another gateway makes one, or has just made one. `afterMs`: 0 puts nothing to sleep. */
  async run(afterMs: number): Promise<Round> {
    const { redis } = this.#options
    const isFirst = await asked(redis.set(keys.sleepWalk, '1', 'PX', walkMs, 'NX'))
    return isFirst ? await this.walk(afterMs) : { slept: 0, removed: 0 }
  }

  /** Makes a round at once. */
  async walk(afterMs: number): Promise<Round> {
    const walking = this.#walk(afterMs)
    this.#running = walking.catch(() => undefined) // the caller gets the error
    return await walking
  }

  /** A round under way ends with the sessions that it is at. */
  async close(): Promise<void> {
    this.#closing.abort()
    await this.#running
  }

  async #walk(afterMs: number): Promise<Round> {
    const attempts = new Attempts(this.#options.log)
    const { signal } = this.#closing
    const removed = await removeUnnamed({ ...this.#options, attempts, signal })
    const sleeping = { afterMs, attempts, slept: 0 }
    if (afterMs > 0) await this.#putOldToSleep(sleeping)
    return { slept: sleeping.slept, removed }
  }

  get #isOver(): boolean {
    return this.#closing.signal.aborted
  }

  async #putOldToSleep(sleeping: Sleeping): Promise<void> {
    const { redis } = this.#options
    for await (const refs of refsWithRests(redis, accountsAtOnce)) {
      await asked(redis.pexpire(keys.sleepWalk, walkMs))
      // A session that was created later was changed later.
      const before = idsBefore(Date.now() - sleeping.afterMs)
      const firsts = refs.map((ref) => oldSessions(redis, ref, { from: '-', before }))
      const found = await asked(Promise.all(firsts))
      for (const [at, ref] of refs.entries()) {
        for (let ids = found[at] ?? []; ids.length > 0 && !this.#isOver;) {
          await this.#putSomeToSleep(ref, ids, sleeping)
          const isLast = ids.length < sessionsALook
          const rest = { from: `(${ids.at(-1)}`, before }
          ids = isLast ? [] : await asked(oldSessions(redis, ref, rest))
        }
      }
      if (this.#isOver) return
    }
  }

  async #putSomeToSleep(ref: string, ids: readonly string[], sleeping: Sleeping): Promise<void> {
    const { scripts, metrics } = this.#options
    const names = ids.map((id) => keys.session(ref, id))
    const { values } = await scripts.run('drowsy', names, [`${sleeping.afterMs}`])
    const drowsy = values.slice(2).map(String)
    const next = async () => {
      for (let id = drowsy.shift(); id !== undefined && !this.#isOver; id = drowsy.shift()) {
        const place = { ref, session: id }
        const sleep = () => putToSleep(this.#options, place, sleeping.afterMs)
        if (!(await sleeping.attempts.make(id, sleep))) continue
        sleeping.slept++
        metrics.sessionsSlept.inc()
      }
    }
    const ends = await Promise.allSettled(Array.from({ length: sleepsAtOnce }, next))
    for (const end of ends) if (end.status === 'rejected') throw end.reason
  }
}

interface Sleeping {
  readonly afterMs: number
  readonly attempts: Attempts
  slept: number
}

/** Bounds as ZRANGEBYLEX takes them. */
interface Bounds {
  readonly from: string
  readonly before: string
}

/** The ids of up to `sessionsALook` sessions between the bounds, oldest first, whatever they are now. */
function oldSessions(redis: Redis, ref: string, { from, before }: Bounds): Promise<string[]> {
  return redis.zrangebylex(keys.sessions(ref), from, before, 'LIMIT', 0, sessionsALook)
}

/** The bound before each id of a session that was made later: ids begin with the time. */
function idsBefore(ms: number): string {
  return `(sess_${Math.floor(ms).toString(16).padStart(12, '0')}`
}
