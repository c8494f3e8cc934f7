// The interface of every feature, built in or an operator's own: declared once (Plugin), set up once for each
// configuration (Running), begun once for each exchange (Hooks, in exchange.ts). lifecycle.ts calls the hooks.

import type { ZodType } from 'zod'
import type { Targets } from './backend/targets.ts'
import type { Config, Model } from './config/config.ts'
import type { Change, Shown } from './config/diff.ts'
import type { Exchange, Hooks, Route } from './exchange.ts'
import type { Shelf } from './files/shelf.ts'
import type { Accounts } from './accounts/accounts.ts'
import type { Ledger } from './ledger/ledger.ts'
import type { Log } from './log.ts'
import type { Metrics, MetricsFormat } from './metrics.ts'
import type { RedisLink } from './redis/connect.ts'
import type { SharedPool } from './sharing/shared-pool.ts'
import type { ObjectStore } from './store/store.ts'

/** Declared once, in source. */
export interface Plugin<C = unknown> {
  /** The key under `plugins:` in gateway.yaml, and the label in logs and metrics. */
  readonly name: string
  /** What gateway.yaml may have under that key, with defaults. An unknown key stops the start. */
  readonly schema: ZodType<C>
  /** Called for each configuration whose file is valid, before the configuration takes over; the plugins in list order, one after the other. To refuse the configuration, throw; a set-up that takes more than 15 s refuses it, too. If a later plugin or a worker refuses it, what this call returned is closed. */
  setup(gateway: Gateway, config: C): Running | Promise<Running>
}

/** Lives as long as one configuration: until the last exchange that began with it has ended. */
export interface Running {
  readonly routes?: readonly Route[]
  /** Called for every exchange; returns undefined when the plugin has nothing to do with it. State of the exchange is kept in local variables of this function. */
  begin?(x: Exchange): Hooks | undefined
  /** Called when no exchange of the configuration runs any more, when the configuration is refused, and at the gateway's end, even if the drain has left exchanges running. Must end by itself: all plugins have 5 s together, and each at least 0.5 s; then it is no longer awaited. */
  close?(): Promise<void>
}

/** A plugin's Running under its name. */
export interface NamedRunning extends Running {
  readonly name: string
}

/** What every plugin gets: made by gateway.ts for each configuration, of parts that live as long as the process. */
export interface Gateway extends Shown {
  readonly config: Config
  readonly redis: RedisLink
  readonly ledger: Ledger
  readonly accounts: Accounts
  readonly store: ObjectStore
  readonly metrics: Metrics
  readonly log: Log
  /** Undefined when the plugin `files` is off. */
  readonly shelf: Shelf | undefined
  /** The same object for each configuration of a process. */
  readonly state: { draining: boolean }
  readonly pools: Pools
  /** What this process knows of the targets of all models. */
  readonly targets: Targets
  /** Reads the file again and takes it up. Rejects with a GatewayError, and changes nothing, when that can't be done. */
  reload(cause: string): Promise<readonly Change[]>
  /** Called once when the gateway closes, after the drain, last one first: for what outlives a configuration (kept-through-reloads.ts). */
  atEnd(close: () => Promise<void>): void
  /** Undefined where there are no workers, and in a worker. */
  readonly workers?: Workers
  /** `name` is an id or an alias. */
  findModel(name: string): Model | undefined
}

/** What a process, or several together, know of a target. */
export interface TargetReport {
  /** The model's id. */
  readonly model: string
  /** The target's. */
  readonly name: string
  readonly state: string
  /** Unix seconds. */
  readonly since: number
  /** Requests that run. */
  readonly open: number
  readonly failures: number
  /** Requests that wait for the model, whatever its target. */
  readonly queue: number
}

/** How a process is, for /readyz. Each part is `ok`, or what is wrong with it. */
export interface Condition {
  readonly isReady: boolean
  readonly redis: string
  readonly ledger: string
  readonly spool: string
}

/** The workers of a supervisor. */
export interface Workers {
  /** How many there should be. */
  readonly count: number
  /** Of each worker that serves and answers. */
  conditions(): Promise<readonly Condition[]>
  /** What they know of their targets, together. */
  targets(): Promise<readonly TargetReport[]>
  /** The metrics of all processes as one text; `own` are the supervisor's. */
  metrics(own: Metrics, format?: MetricsFormat): Promise<string>
}

/** What accounts share in this process. */
export interface Pools {
  /** Bytes of answers that clients have not taken yet. */
  readonly unsent: SharedPool
  /** The same of answers for which nobody needs a key, by network. */
  readonly unsentToStrangers: SharedPool
  /** Slots for readers of session streams, and for downloads. */
  readonly readers: SharedPool
  /** Slots for uploads. */
  readonly uploads: SharedPool
  /** Bytes of request bodies. */
  readonly bodies: SharedPool
}
