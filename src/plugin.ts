// The one interface of every feature, built in or an operator's own: declared once (Plugin), running once
// a configuration (Running), hooked once an exchange (Hooks). lifecycle.ts calls them in the order written here.

import type { ZodType } from 'zod'
import type { Config, Model } from './config/config.ts'
import type { Exchange, Hooks, Route } from './exchange.ts'
import type { Shelf } from './files/shelf.ts'
import type { Accounts } from './accounts/accounts.ts'
import type { Ledger } from './ledger/ledger.ts'
import type { Log } from './log.ts'
import type { Metrics } from './metrics.ts'
import type { RedisLink } from './redis/redis.ts'
import type { SharedPool } from './sharing/shared-pool.ts'
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
