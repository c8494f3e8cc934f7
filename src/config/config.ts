// The configuration as the rest of the gateway sees it: every default filled in, units parsed, secrets resolved, frozen.
// The zod schemas in schema.ts produce exactly this.

import type { endpointNames } from './model-keys.ts'
import type { RedisAddress } from './words.ts'

/** Integer micro-units of a balance token per model token; `request` per request. 1 token = 1,000,000. */
export interface Price {
  readonly input: bigint
  readonly output: bigint
  readonly cachedInput: bigint
  readonly request: bigint
}

export interface Target {
  /** Label in metrics and logs: position in the model's list, never the URL. */
  readonly name: string
  /** `demo` for the built-in model. */
  readonly url: string
  /** The backend's name of the model; the client's id where not given. */
  readonly model: string
  readonly key?: string
  /** Header that carries the key; default `authorization` with `Bearer `. */
  readonly keyHeader?: string
  readonly ca?: string
  readonly headers: Readonly<Record<string, string>>
  readonly priority: number
  readonly weight: number
  readonly maxTokensField?: 'max_tokens' | 'max_completion_tokens'
  readonly includeUsage: boolean
  /** Asked for in every chunk. */
  readonly continuousUsage: boolean
  /** The backend is told a `cache_salt` for each account. */
  readonly cacheSalt: boolean
}

export type Endpoint = (typeof endpointNames)[number]

export interface Model {
  readonly id: string
  readonly aliases: readonly string[]
  readonly targets: readonly Target[]
  readonly price: Price
  readonly contextWindow: number
  readonly maxOutputTokens: number
  readonly accepts: readonly string[]
  readonly endpoints: readonly Endpoint[]
  /** `contextWindow` where somebody said it: no prompt is longer. */
  readonly promptWindow: number
  readonly bytesPerToken: number
  readonly imageTokens: number
  /** What becomes of the backend when the client leaves; undefined: aborted, unless it does not stream. */
  readonly onLeave: 'abort' | 'finish' | undefined
  readonly timeouts: {
    readonly connectMs: number
    readonly firstTokenMs: number
    readonly idleMs: number
    readonly totalMs: number
  }
  readonly completeWhen: 'finish_reason' | 'done'
  readonly forwardHeaders: readonly string[]
  /** Beyond what every model takes; `*` is all. */
  readonly extraParameters: readonly string[]
  /** Hosts that media may come from, with a port where it is not 443; `*.` before one is all below it. */
  readonly remoteMedia: readonly string[]
}

export interface Plan {
  readonly requestsPerMinute: number
  readonly tokensPerMinute: number
  readonly concurrency: number
  /** `*` allows all. */
  readonly models: readonly string[]
  /** All files and sessions of one account together. */
  readonly storageBytes: number
  /** The same of an account whose balance is 0. */
  readonly unpaidStorageBytes: number
}

interface SingleRedis extends RedisAddress {
  readonly kind: 'single'
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string }
}

export type RedisConfig = { readonly kind: 'embedded' } | SingleRedis

/** An S3 bucket, or a folder by its absolute path. */
export type StoreConfig = { readonly disk: DiskConfig } | { readonly s3: S3Config }

export interface DiskConfig {
  readonly path: string
  /** That files leave free on its file system; not given, nothing. */
  readonly reserveBytes?: number
}

export interface S3Config {
  readonly bucket: string
  /** Of every object's key: '' or ends with a slash. */
  readonly prefix: string
  readonly region: string
  /** Not given: AWS. */
  readonly endpoint?: string
  readonly pathStyle: boolean
  /** Not given: where AWS tools look for them. */
  readonly credentials?: { readonly accessKeyId: string; readonly secretAccessKey: string }
  readonly partBytes: number
  /** Parts of one upload in memory at a time. */
  readonly concurrency: number
}

export interface Listen {
  readonly host: string
  readonly port: number
  /** PEM texts. */
  readonly tls?: { readonly cert: string; readonly key: string }
  /** CIDRs whose X-Forwarded-For is believed. */
  readonly trustedProxies: readonly string[]
}

export interface Limits {
  readonly jsonApiBytes: number
  /** A message sent to a session. */
  readonly jsonMessageBytes: number
  readonly jsonV1Bytes: number
  readonly sseLineBytes: number
  readonly answerBytes: number
  /** All bodies in flight together. */
  readonly bodiesBytes: number
  /** A body comes at least as fast on average. */
  readonly bodyBytesPerSecond: number
  /** All uploads that run, together. */
  readonly uploadsBytes: number
  /** All answers that their clients have not taken yet, together. */
  readonly unsentBytes: number
  /** Streams read again and downloads, all accounts together. */
  readonly readers: number
  readonly heartbeatMs: number
  readonly readerStallMs: number
  readonly jsonBodyMs: number
  readonly headersMs: number
  readonly keepAliveMs: number
  /** An upload of which nothing arrives for so long is given up. */
  readonly uploadIdleMs: number
  /** A second; over `uploadIdleMs` it has to keep it up. */
  readonly uploadRateBytes: number
  /** How long the first content is waited for before 200 is committed. */
  readonly firstByteMs: number
  /** The same for a message of a session. */
  readonly sessionFirstEventMs: number
  /** All messages of one session together. */
  readonly sessionBytes: number
  readonly instructionsBytes: number
  /** Images and files in one message. */
  readonly attachments: number
}

export interface Config {
  /** The file it came from, for messages; '' for built-in defaults. */
  readonly file: string
  readonly listen: Listen
  readonly admin: {
    readonly listen: Listen
    readonly token: string
    readonly hosts: readonly string[]
  }
  /** Absolute path. */
  readonly data: string
  readonly redis: RedisConfig
  readonly store: StoreConfig
  /** By id; aliases are not keys of it. */
  readonly models: ReadonlyMap<string, Model>
  readonly plans: ReadonlyMap<string, Plan>
  /** Each plugin's parsed block by name; absent where switched off. */
  readonly plugins: ReadonlyMap<string, unknown>
  readonly limits: Limits
  readonly log: {
    readonly level: 'debug' | 'info' | 'warn' | 'error' | 'silent'
    /** Not given: what suits where the log goes. */
    readonly format?: 'json' | 'pretty' | undefined
  }
  readonly drainMs: number
}
