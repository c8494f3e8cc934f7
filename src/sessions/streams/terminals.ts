// Which terminals readers have been given for a message that another gateway than its owner has ended. Each reader gets
// one, numbered after its last frame, and only once.

import { asked } from '../../redis/asked.ts'
import type { Redis } from '../../redis/client.ts'
import { keys } from '../../redis/keys.ts'

export interface TerminalsOptions {
  readonly redis: Redis
  readonly replayKeepMs: number
}

interface StreamPlace {
  readonly ref: string
  readonly message: string
}

/** Once a stream's key has so many fields, every reader counts as having its terminal: else a client could add fields without end. */
const mostTerminals = 64

export class Terminals {
  readonly #options: TerminalsOptions

  constructor(options: TerminalsOptions) {
    this.#options = options
  }

  /** Whether a reader has been given the terminal with the number `seq`. */
  async wasGiven({ ref, message }: StreamPlace, seq: number): Promise<boolean> {
    const { redis } = this.#options
    const key = keys.stream(ref, message)
    const looks = [redis.hlen(key), redis.hexists(key, `to:${seq}`)]
    const [fields = 0, isNoted] = await asked(Promise.all(looks))
    return fields > mostTerminals || isNoted === 1
  }

  /** Notes that a reader has been given the terminal `seq`. */
  async note({ ref, message }: StreamPlace, seq: number): Promise<void> {
    const { redis, replayKeepMs } = this.#options
    const key = keys.stream(ref, message)
    const noted = redis.hset(key, `to:${seq}`, '1')
    // The stream may have expired since it was read: the key that this makes again must expire too.
    await asked(Promise.all([noted, redis.pexpire(key, replayKeepMs)]))
  }
}
