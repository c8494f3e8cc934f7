// What the log says while Redis is away, or answers and refuses to write (its disk or its memory is full, it became a
// replica): a line when that begins and one when it is over, with how long it was and how many requests it cost.

import type { Redis } from 'ioredis'
import type { Log } from '../log.ts'

export interface OutageOptions {
  readonly log: Pick<Log, 'info' | 'warn'> | undefined
  /** A zset, whether it is there or not. */
  readonly probeKey: string
}

/** Why a Redis that answers takes no writes, by the first word of its error. */
const refusal = /^(MISCONF|OOM|NOREPLICAS|READONLY)\b/
/** A replica's. Its connections are closed, since behind the same address the new master may be: that is no news. */
const ofReplica = 'READONLY'
/** What a retry can't heal: said also where an outage has been told already. */
export const hopeless = /^(WRONGPASS|NOAUTH|NOPERM|ERR (AUTH|invalid password|DB index|invalid DB))/
const probeEveryMs = 1000

export class RedisOutage {
  readonly #options: OutageOptions
  #client: Redis | undefined
  /** Of the outage that goes on, or of the last one. */
  #refused = 0
  #since = 0
  #isAway = false
  /** Before the first connection, a reason is said as it comes. */
  #wasUp = false
  #isTold = true
  #reason = ''
  #refuses: string | undefined
  #probe: NodeJS.Timeout | undefined
  #isClosing = false

  constructor(options: OutageOptions) {
    this.#options = options
  }

  /** Redis answers, and takes no writes: why. */
  get refuses(): string | undefined {
    return this.#refuses
  }

  /** A request was refused because of it. */
  count(): void {
    this.#refused++
  }

  /** Nothing is news any more. */
  close(): void {
    this.#isClosing = true
  }

  watch(client: Redis): void {
    this.#client = client
    client.on('error', (error: Error) => this.#failed(textOf(error)))
    client.on('close', () => this.#lost())
    client.on('ready', () => this.#back())
  }

  /** Of each error that Redis answers. */
  answered(message: string): void {
    const [, word] = refusal.exec(message) ?? []
    if (word === undefined || this.#refuses !== undefined || this.#isClosing) return
    this.#refuses = word
    this.#begin()
    const reason = message.replace(/ script: .*$/s, '')
    this.#options.log?.warn({ reason }, 'Redis refuses to write: work that needs it is refused')
    this.#later()
  }

  #begin(): void {
    this.#since = performance.now()
    this.#refused = 0
  }

  #failed(reason: string): void {
    if (this.#isClosing || reason === this.#reason) return
    this.#reason = reason
    if (!this.#wasUp || (this.#isTold && this.#isAway && hopeless.test(reason))) {
      this.#options.log?.warn({ reason }, 'Redis: a connection failed')
    } else if (!this.#isTold) this.#tellAway()
  }

  #lost(): void {
    const isReplica = this.#refuses === ofReplica
    if (!isReplica) this.#endProbe()
    if (this.#isAway || !this.#wasUp || this.#isClosing) return
    this.#isAway = true
    this.#isTold = false
    if (isReplica) return
    this.#begin()
    // Why it went is mostly said by the next connection that fails.
    if (this.#reason !== '') this.#tellAway()
  }

  #tellAway(): void {
    this.#endProbe()
    this.#isTold = true
    const reason = this.#reason || 'the connection was closed'
    this.#options.log?.warn({ reason }, 'Redis is away: work that needs it is refused')
  }

  #back(): void {
    // Whether it is still a replica, the probe finds out.
    if (this.#refuses === undefined) this.#tellBack()
    this.#wasUp = true
    this.#isAway = false
    this.#isTold = true
    this.#reason = ''
  }

  #tellBack(): void {
    const { log } = this.#options
    if (!this.#isTold) this.#tellAway()
    const cost = { away_ms: Math.round(performance.now() - this.#since), refused: this.#refused }
    if (this.#isAway) log?.info(cost, 'Redis is connected again')
    else log?.info({}, 'Redis is connected')
  }

  #endProbe(): void {
    clearTimeout(this.#probe)
    this.#refuses = undefined
  }

  #later(): void {
    if (this.#isClosing) return
    this.#probe = setTimeout(() => void this.#try(), probeEveryMs).unref()
  }

  /** A write that changes nothing, which Redis refuses for all the reasons above. */
  async #try(): Promise<void> {
    try {
      await this.#client?.zadd(this.#options.probeKey, 'XX', 0, 'nobody')
    } catch {
      // Where the connection is lost, that is told.
      if (this.#refuses !== undefined) this.#later()
      return
    }
    this.#refuses = undefined
    const refused_ms = Math.round(performance.now() - this.#since)
    this.#options.log?.info({ refused_ms, refused: this.#refused }, 'Redis writes again')
  }
}

/** An AggregateError (one refusal for each of a host's addresses) has no message of its own. */
export function textOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(textOf).join('; ')
  return error instanceof Error ? error.message : String(error)
}
