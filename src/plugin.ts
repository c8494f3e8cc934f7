// The door that every feature goes through, built in or an operator's own: declared once (Plugin), running once
// a configuration (Running), hooked once an exchange (Hooks). lifecycle.ts calls them in the order written here.

import type { ZodType } from 'zod'
import type { Config, Model } from './config/config.ts'
import type { GatewayError } from './errors.ts'
import type { Answer, BackendRequest, Exchange, Outcome, Route, SseEvent } from './exchange.ts'
import type { Shelf } from './files/shelf.ts'
import type { Accounts } from './ledger/accounts.ts'
import type { Ledger } from './ledger/ledger.ts'
import type { Log } from './log.ts'
import type { Metrics } from './metrics.ts'
import type { RedisLink } from './redis.ts'
import type { SharedPool } from './shared-pool.ts'
import type { ObjectStore } from './store/store.ts'

/** Declared once, in source. */
export interface Plugin<C = unknown> {
  /** Key under `plugins:` in gateway.yaml; label in logs and metrics. */
  readonly name: string
  /** What may stand under that key, with defaults. Unknown keys stop the start. */
  readonly schema: ZodType<C>
  /** Runs before the configuration takes over. Throw to refuse the configuration. */
  setup(gateway: Gateway, config: C): Running | Promise<Running>
}

/** Lives as long as one configuration. */
export interface Running {
  readonly routes?: readonly Route[]
  /** Called for every exchange; undefined where it is none of the plugin's. What is remembered about one is this closure's variables. */
  begin?(x: Exchange): Hooks | undefined
  /** After the last exchange. Must end by itself. */
  close?(): Promise<void>
}

/** Lives as long as one exchange; written in the order in which it runs. */
export interface Hooks {
  /** Headers only, no I/O: refuse what can be refused for free. */
  check?(): void
  /** Only before a body over 4 KiB is read: is the caller good for it? */
  vouch?(): Promise<void>
  /** The body is there. All plugins' calls start in one tick: key, idempotency claim, the session a route reads. May answer (a replay). */
  identify?(): Promise<Answer | void> | void
  /** Again one tick: limits and hold for x.want, with the rows and locks that belong to it. */
  admit?(): Promise<void>
  /** Last word on what a backend gets; runs on a fresh copy for each attempt. */
  upstream?(request: BackendRequest): void
  /** Each backend event before the client sees it; may replace its data. A non-streamed answer is one event. Not async: this is the token path. */
  event?(event: SseEvent): void
  /** An answer is being refused. May replace the error, for instance by 429 after too many failures. Must not wait. */
  refuse?(error: GatewayError): GatewayError | void
  /** Exactly once, last plugin first, whatever happened, also if admit never ran. Resolves when what must precede the last byte is sent. */
  done?(outcome: Outcome): void | Promise<void>
}

/** A plugin's Running under its name. */
export interface NamedRunning extends Running {
  readonly name: string
}

/** What plugins find there: built once, in gateway.ts. */
export interface Gateway {
  readonly config: Config
  /** As `check --print` shows it: secrets masked. */
  readonly effective: unknown
  readonly redis: RedisLink
  readonly ledger: Ledger
  readonly accounts: Accounts
  readonly store: ObjectStore
  readonly metrics: Metrics
  readonly log: Log
  /** Undefined where the plugin `files` is off. */
  readonly shelf: Shelf | undefined
  readonly state: { draining: boolean }
  readonly pools: Pools
  /** By id or alias. */
  findModel(name: string): Model | undefined
}

/** What accounts share in this process. */
export interface Pools {
  /** Bytes of answers that clients have not taken yet. */
  readonly unsent: SharedPool
  /** Streams that are read, downloads. */
  readonly readers: SharedPool
}
