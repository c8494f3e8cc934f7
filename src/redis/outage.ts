// What the log says during an outage of Redis: Redis is away, or it answers and refuses to write (its disk or memory is
// full, or it became a replica). One line when the outage begins and one when it is over, with its length and the
// number of requests that it cost.

import type { EventEmitter } from 'node:events'
import { messageOf } from '../errors.ts'
import type { Log } from '../log.ts'

/** The part of a client that finds out whether Redis takes writes again. */
interface Prober {
  zadd(key: string, how: 'XX', score: number, member: string): Promise<unknown>
}

export interface OutageOptions {
  readonly log: Pick<Log, 'info' | 'warn'> | undefined
  /** Keys of zsets, which need not exist; of a Cluster, so many that each primary has one of them. */
  readonly probeKeys: readonly string[]
}

/** Why a Redis that answers takes no writes, by the first word of its error. */
const refusal = /^(MISCONF|OOM|NOREPLICAS|READONLY|CLUSTERDOWN)\b/
/** The error of a replica. Its connection is then closed on purpose, because a new connection may reach the new master: that close is not logged. */
const ofReplica = 'READONLY'
/** Errors that a retry can't heal: they are logged even during an outage that was logged already. */
export const hopeless = /^(WRONGPASS|NOAUTH|NOPERM|ERR (AUTH|invalid password|DB index|invalid DB))/
const probeEveryMs = 1000

export class RedisOutage {
  readonly #options: OutageOptions
  #client: Prober | undefined
  /** Of the current outage, or of the last one: requests that were refused, and its beginning. */
  #refused = 0
  #since = 0
  #isAway = false
  /** Until the first connection, every new reason is logged. */
  #wasUp = false
  /** Whether the newest loss of the connection has been logged. */
  #isTold = true
  #reason = ''
  #refuses: string | undefined
  #refusesAll = false
  #probe: NodeJS.Timeout | undefined
  #isClosing = false
  /** True while the connection is being replaced on purpose. */
  #isLeaving = false

  constructor(options: OutageOptions) {
    this.#options = options
  }

  /** Why Redis, or one primary of a Cluster, answers but takes no writes; undefined when it takes writes or is away. */
  get refuses(): string | undefined {
    return this.#refuses
  }

  /** Of a Cluster: no primary takes writes. */
  get refusesAll(): boolean {
    return this.#refuses !== undefined && this.#refusesAll
  }

  /** Call this for each request that is refused because of the outage. */
  count(): void {
    this.#refused++
  }

  /** The connection is closed on purpose, for a new one: only a new one that fails is news. */
  leaves(): void {
    this.#isLeaving = true
  }

  /** From now on nothing is logged, because the gateway closes. */
  close(): void {
    this.#isClosing = true
  }

  /** `events`: `ready` and `close` of the connection, or of all of a Cluster together, and each `error`. */
  watch(client: Prober, events: EventEmitter): void {
    this.#client = client
    events.on('error', (error: Error) => this.#failed(messageOf(error)))
    events.on('close', () => this.#onClose())
    events.on('ready', () => this.#onReady())
  }

  /** Call this with each error that Redis answers. */
  answered(message: string): void {
    const [, word] = refusal.exec(message) ?? []
    const isKnown = this.#refuses !== undefined || this.#isAway
    if (word === undefined || isKnown || this.#isClosing) return
    this.#refuses = word
    this.#refusesAll = this.#options.probeKeys.length === 1
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
    const isHopeless = this.#isAway && this.#isTold && hopeless.test(reason)
    if (!this.#wasUp || isHopeless) {
      this.#options.log?.warn({ reason }, 'Redis: a connection failed')
    } else if (!this.#isTold) {
      this.#tellAway()
    }
  }

  #onClose(): void {
    const isReplica = this.#refuses === ofReplica
    if (!isReplica) this.#endProbe()
    const wasConnected = this.#wasUp && !this.#isAway
    if (!wasConnected || this.#isClosing) return
    this.#isAway = true
    this.#isTold = false
    // An outage of a replica has begun with its first refusal.
    if (!isReplica) this.#begin()
    // Told only when the new connection fails, too (`#failed`).
    if (isReplica || this.#isLeaving) return
    // If no reason is known yet, the next failed connection mostly brings one.
    if (this.#reason !== '') this.#tellAway()
  }

  #tellAway(): void {
    this.#endProbe()
    this.#isTold = true
    const reason = this.#reason || 'the connection was closed'
    this.#options.log?.warn({ reason }, 'Redis is away: work that needs it is refused')
  }

  #onReady(): void {
    const wasOnlyLeft = this.#isLeaving && !this.#isTold
    // If writes were refused, the probe finds out whether Redis is still a replica.
    const isProbed = this.#refuses !== undefined
    if (!isProbed && !wasOnlyLeft) this.#tellBack()
    this.#isLeaving = false
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

  /** Sends writes that change nothing; Redis refuses them for each reason in `refusal`. */
  async #try(): Promise<void> {
    const client = this.#client
    if (!client) return
    const probe = (key: string) => client.zadd(key, 'XX', 0, 'nobody').then(() => '', messageOf)
    const errors = await Promise.all(this.#options.probeKeys.map(probe))
    // If the connection is lost, #onClose has ended the probe and logs that.
    if (this.#refuses === undefined) return
    this.#refusesAll = !errors.includes('')
    // A primary of a Cluster that is away refuses nothing.
    if (this.#refusesAll || errors.some((error) => refusal.test(error))) return this.#later()
    this.#refuses = undefined
    const refused_ms = Math.round(performance.now() - this.#since)
    this.#options.log?.info({ refused_ms, refused: this.#refused }, 'Redis writes again')
  }
}
