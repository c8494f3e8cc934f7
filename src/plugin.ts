// The interface of every feature, built in or an operator's own: declared once (Plugin), set up once for each
// configuration (Running), begun once for each exchange (Hooks, in exchange.ts). lifecycle.ts calls the hooks.

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
  /** The key under `plugins:` in gateway.yaml, and the label in logs and metrics. */
  readonly name: string
  /** What gateway.yaml may have under that key, with defaults. An unknown key stops the start. */
  readonly schema: ZodType<C>
  /** Runs before the listeners open. Throw to refuse the configuration. */
  setup(gateway: Gateway, config: C): Running | Promise<Running>
}

/** Lives as long as one configuration. */
export interface Running {
  readonly routes?: readonly Route[]
  /** Called for every exchange; returns undefined when the plugin has nothing to do with it. State of the exchange is kept in local variables of this function. */
  begin?(x: Exchange): Hooks | undefined
  /** Called after the last exchange. Must end by itself. */
  close?(): Promise<void>
}

/** A plugin's Running under its name. */
export interface NamedRunning extends Running {
  readonly name: string
}

/** What every plugin gets: built once, in gateway.ts. */
export interface Gateway {
  readonly config: Config
  /** The configuration as `check --print` shows it, with secrets masked. */
  readonly effective: unknown
  readonly redis: RedisLink
  readonly ledger: Ledger
  readonly accounts: Accounts
  readonly store: ObjectStore
  readonly metrics: Metrics
  readonly log: Log
  /** Undefined when the plugin `files` is off. */
  readonly shelf: Shelf | undefined
  readonly state: { draining: boolean }
  readonly pools: Pools
  /** `name` is an id or an alias. */
  findModel(name: string): Model | undefined
}

/** What accounts share in this process. */
export interface Pools {
  /** Bytes of answers that clients have not taken yet. */
  readonly unsent: SharedPool
  /** Slots for readers of session streams, and for downloads. */
  readonly readers: SharedPool
}
