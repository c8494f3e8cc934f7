// The configuration as the rest of the gateway sees it: every default filled in, units parsed, secrets resolved,
// frozen. resolve.ts makes it from the keys of the file. Where nothing else is said, names and types follow from the
// schemas (named.ts), where a sentence says what each key means.

import type { StoreConfig } from '../store/drivers.ts'
import type { limits } from './keys.ts'
import type * as keys from './model-keys.ts'
import type { Named } from './named.ts'
import type { plan } from './plan-keys.ts'
import type { RedisAddress } from './words.ts'

/** Integer micro-units of a balance token per model token; `request` per request. 1 token = 1,000,000. */
export type Price = Named<typeof keys.price.shape>

/** What the operator pays for tokens, in the unit of `Price`. */
export type Cost = Named<typeof keys.cost.shape>

type TargetNames = Named<typeof keys.targetBlock.shape>

interface OwnTargetKeys {
  /** The label in metrics and logs: the position in the model's list, from 1, never the URL. */
  readonly name: string
  /** `demo` for the built-in model. */
  readonly url: string
  /** The backend's name of the model; by default the model's id. */
  readonly model: string
  readonly key?: string
  /** Header that carries the key; default `authorization` with `Bearer `. */
  readonly keyHeader?: string
  /** PEM text. */
  readonly ca?: string
  readonly headers: Readonly<Record<string, string>>
  readonly maxTokensField?: 'max_tokens' | 'max_completion_tokens'
  readonly breaker: Named<typeof keys.breaker.shape>
  readonly healthCheck?: Named<typeof keys.healthCheck.shape>
  /** Usage is asked for in every chunk of a stream. */
  readonly continuousUsage: boolean
}

/** A key of a target that has no sentence of its own here is what the file says. */
export type Target = OwnTargetKeys &
  Omit<TargetNames, keyof OwnTargetKeys | 'demo' | 'continuousUsageStats'>

type ModelNames = Named<typeof keys.model.shape>

type ChangedInModel =
  'targets' | 'price' | 'cost' | 'timeouts' | 'breaker' | 'queue' | 'accepts' | 'onLeave'

/** A key of a model that is not named here is what the file says. */
export interface Model extends Omit<ModelNames, ChangedInModel> {
  readonly id: string
  readonly targets: readonly Target[]
  readonly price: Price
  readonly cost: Cost | undefined
  readonly breaker: Named<typeof keys.breaker.shape>
  readonly queue: Named<typeof keys.queue.shape>
  readonly accepts: readonly string[]
  /** The longest prompt that is believed: `contextWindow` if the file has another than the default, else Infinity. */
  readonly promptWindow: number
  /** What happens to the backend request when the client leaves; undefined: it is aborted if it streams, else finished. */
  readonly onLeave: 'abort' | 'finish' | undefined
  readonly timeouts: Named<typeof keys.timeouts.shape>
}

/** Its `models` are ids; `*` allows all. */
export type Plan = Named<typeof plan.shape>

export interface RedisLogin {
  readonly username?: string | undefined
  readonly password?: string | undefined
  /** PEM texts. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string }
}

interface SingleRedis extends RedisAddress, RedisLogin {
  readonly kind: 'single'
}

/** The primary that Sentinels name. */
interface SentinelRedis extends RedisLogin {
  readonly kind: 'sentinel'
  readonly sentinels: readonly HostPort[]
  /** The name that the Sentinels have for the primary. */
  readonly name: string
  readonly db: number
  readonly sentinelUsername?: string | undefined
  readonly sentinelPassword?: string | undefined
}

interface ClusterRedis extends RedisLogin {
  readonly kind: 'cluster'
  /** Some of its nodes: they name the others. */
  readonly nodes: readonly HostPort[]
}

export type RedisConfig = { readonly kind: 'embedded' } | SingleRedis | SentinelRedis | ClusterRedis

interface HostPort {
  readonly host: string
  readonly port: number
}

export interface Listen {
  readonly host: string
  readonly port: number
  /** PEM texts. */
  readonly tls?: { readonly cert: string; readonly key: string }
  /** CIDRs whose X-Forwarded-For is believed. */
  readonly trustedProxies: readonly string[]
}

export type Limits = Named<typeof limits.shape>

export interface Config {
  /** The file that it was read from, for messages; '' for built-in defaults. */
  readonly file: string
  readonly listen: Listen
  readonly admin: {
    readonly listen: Listen
    readonly token: string
    readonly hosts: readonly string[]
  }
  /** Absolute path. */
  readonly data: string
  /** How many processes serve clients. */
  readonly workers: number
  readonly redis: RedisConfig
  readonly store: StoreConfig
  /** By id; it has no entries for aliases. */
  readonly models: ReadonlyMap<string, Model>
  readonly plans: ReadonlyMap<string, Plan>
  /** Each plugin's parsed block, by name; a plugin that is switched off has no entry. */
  readonly plugins: ReadonlyMap<string, unknown>
  readonly limits: Limits
  /** When the gateway reads the file again by itself: `watch`, when it has changed; `signal`, never. */
  readonly reload: 'watch' | 'signal'
  readonly log: {
    readonly level: 'debug' | 'info' | 'warn' | 'error' | 'silent'
    /** When undefined: `pretty` on a terminal, else `json`. */
    readonly format?: 'json' | 'pretty' | undefined
  }
  readonly shutdownDelayMs: number
  readonly drainMs: number
}
