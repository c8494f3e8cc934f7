// Wakes sessions whose messages are in the store: whoever reads or writes the messages of one learns from the same
// script that it sleeps, has its messages written back, and asks again. The session wakes with the last message, so
// a gateway that dies in between, or a second one that wakes it too, does no harm.

import { GatewayError } from '../../errors.ts'
import type { Log } from '../../log.ts'
import type { Metrics } from '../../metrics.ts'
import { asked } from '../../redis/asked.ts'
import type { Redis } from '../../redis/client.ts'
import { keys } from '../../redis/keys.ts'
import { textAt, unavailable } from '../../redis/scripts.ts'
import type { Reply } from '../../redis/scripts.ts'
import { FairTurns } from '../../sharing/fair-turns.ts'
import { NoSuchObject } from '../../store/store.ts'
import type { ObjectStore } from '../../store/store.ts'
import { sessionKeys } from '../library.ts'
import type { SessionPlace, SessionScripts } from '../library.ts'
import { objectKeptMs, pathOf, unpack } from './object.ts'
import type { StoredRow } from './object.ts'

export interface WakingOptions {
  readonly redis: Redis
  readonly scripts: SessionScripts
  readonly store: Pick<ObjectStore, 'get'>
  readonly log: Pick<Log, 'error'>
  readonly metrics: Pick<Metrics, 'sessionsWoken'>
}

/** Each may have an object of the largest session in memory. */
const wakesAtOnce = 2
/** Redis serves nobody else while it writes so much; one row may have more. */
const chunkBytes = 256 * 1024
const chunkRows = 500
const mostTries = 3

export class Waking {
  readonly #options: WakingOptions
  /** An account that reads many sleeping sessions waits for its own. */
  readonly #turns = new FairTurns(wakesAtOnce)
  /** By the object: all that wait for a session share one try. */
  readonly #running = new Map<string, Promise<void>>()
  /** When the store was away last, and why: who waited for a turn then does not ask it, too, one after the other. */
  #away: { readonly atMs: number; readonly error: GatewayError } | undefined

  constructor(options: WakingOptions) {
    this.#options = options
  }

  /**
   * Does work that throws `Asleep` where it finds the session asleep; wakes the session then, and does the work again. The
   * wake is outside the work: whatever turn the work has is for others while the store is asked. Begins in this tick.
   * `mayWake`: what has to succeed before anything is woken. Throws `storage_unavailable` while the store is away,
   * `internal_error` if the messages are lost.
   */
  async awake<T>(
    place: SessionPlace,
    work: () => Promise<T>,
    mayWake?: Promise<unknown>,
  ): Promise<T> {
    for (let tries = 0; tries < mostTries; tries++) {
      try {
        return await work()
      } catch (error) {
        if (!(error instanceof Asleep)) throw error
        await mayWake
        await this.wake(place, error.object)
      }
    }
    throw unavailable(new Error(`The session ${place.session} falls asleep again and again`))
  }

  /** Resolves when the session no longer sleeps in this object; a deleted session does not either. */
  wake(place: SessionPlace, object: string): Promise<void> {
    const sinceMs = performance.now()
    const running = this.#running.get(object)
    if (running) return running
    const waking = this.#turns.run(place.ref, () => this.#wakeNow(place, object, sinceMs))
    const done = waking.finally(() => this.#running.delete(object))
    this.#running.set(object, done)
    return done
  }

  async #wakeNow(place: SessionPlace, object: string, sinceMs: number): Promise<void> {
    if (this.#away && this.#away.atMs > sinceMs) throw this.#away.error
    const name = pathOf(place.ref, object)
    try {
      const bytes = await this.#options.store.get(name)
      for (let tries = 0; tries < mostTries; tries++) {
        if (await this.#write(place, object, bytes)) return
      }
      throw new TypeError('Redis does not keep the messages')
    } catch (error) {
      if (error instanceof GatewayError) {
        if (error.code === 'storage_unavailable') this.#away = { atMs: performance.now(), error }
        throw error
      }
      if (!(await this.#isNamed(place, object))) return
      const what = error instanceof NoSuchObject ? 'is not in the store' : 'cannot be used'
      this.#options.log.error(
        { err: error, object: name, session: place.session },
        `the object with the messages of a session ${what}: docs/runbook.md#sessions-that-sleep`,
      )
      throw lost(error)
    }
  }

  async #isNamed({ ref, session }: SessionPlace, object: string): Promise<boolean> {
    const named = await asked(this.#options.redis.hget(keys.session(ref, session), 'asleep'))
    return named === object
  }

  /** False when Redis has lost some of the messages meanwhile. */
  async #write(place: SessionPlace, object: string, bytes: Buffer): Promise<boolean> {
    const { scripts, metrics } = this.#options
    const { ref, session } = place
    const names = [...sessionKeys(ref, session), keys.sessionObjects(ref)]
    // Nothing of an object that is broken, or not this one, gets into Redis.
    for await (const _row of unpack(object, bytes)) continue
    let count = 0
    let [chunk, size]: [StoredRow[], number] = [[], 0]
    const send = async (all: number) => {
      const words = [`${object} ${all} ${objectKeptMs}`, ...chunk.flat()]
      ;[chunk, size] = [[], 0]
      return (await scripts.run('wake', names, words)).word
    }
    for await (const row of unpack(object, bytes)) {
      const isFull = chunk.length === chunkRows || size + row[1].length > chunkBytes
      // Another gateway was quicker, or the session was deleted.
      if (isFull && chunk.length > 0 && (await send(0)) !== 'ok') return true
      chunk.push(row)
      size += row[1].length
      count++
    }
    const word = await send(count)
    if (word === 'ok') metrics.sessionsWoken.inc()
    return word !== 'again'
  }
}

/** Thrown within `Waking.awake`: the session sleeps in this object. */
class Asleep extends Error {
  override readonly name = 'Asleep'
  readonly object: string

  constructor(object: string) {
    super(object)
    this.object = object
  }
}

/** Throws `Asleep` if the script says so. */
export async function unlessAsleep<Word extends string>(
  asking: Promise<Reply<Word>>,
): Promise<Reply<Exclude<Word, 'asleep'>>> {
  const reply = await asking
  if (isAwake(reply)) return reply
  throw new Asleep(textAt(reply, 2))
}

function isAwake<Word extends string>(
  reply: Reply<Word>,
): reply is Reply<Word> & Reply<Exclude<Word, 'asleep'>> {
  return reply.word !== 'asleep'
}

function lost(cause: unknown): GatewayError {
  const message =
    'The messages of this session cannot be read from the store. Tell the operator, with the request id.'
  return new GatewayError('internal_error', { message, cause })
}
