// The configuration as the rest of the gateway sees it: every default filled in, units parsed, secrets resolved,
// frozen. resolve.ts makes it from the keys of the file.

import type { Endpoint } from './endpoints.ts'
import type { RedisAddress } from './words.ts'

/** Integer micro-units of a balance token per model token; `request` per request. 1 token = 1,000,000. */
export interface Price {
  readonly input: bigint
  readonly output: bigint
  readonly cachedInput: bigint
  readonly request: bigint
}

export interface Target {
  /** The label in metrics and logs: the position in the model's list, from 1, never the URL. */
  readonly name: string
  /** `demo` for the built-in model. */
  readonly url: string
  /** The backend's name of the model; by default the model's id. */
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
  /** Usage is asked for in every chunk of a stream. */
  readonly continuousUsage: boolean
  /** The backend gets a `cache_salt` for each account. */
  readonly cacheSalt: boolean
}

export interface Model {
  readonly id: string
  readonly aliases: readonly string[]
  readonly targets: readonly Target[]
  readonly price: Price
  readonly contextWindow: number
  readonly maxOutputTokens: number
  readonly accepts: readonly string[]
  readonly endpoints: readonly Endpoint[]
  /** The longest prompt that is believed: `contextWindow` if the file has another than the default, else Infinity. */
  readonly promptWindow: number
  readonly bytesPerToken: number
  readonly imageTokens: number
  /** What happens to the backend request when the client leaves; undefined: it is aborted if it streams, else finished. */
  readonly onLeave: 'abort' | 'finish' | undefined
  readonly timeouts: {
    readonly connectMs: number
    readonly firstTokenMs: number
    readonly idleMs: number
    readonly totalMs: number
  }
  readonly completeWhen: 'finish_reason' | 'done'
  readonly forwardHeaders: readonly string[]
  /** Parameters that are let through beyond those that every model takes; `*` is all. */
  readonly extraParameters: readonly string[]
  /** Hosts that media may come from, with a port if that is not 443; `*.` before a name means all hosts below it. */
  readonly remoteMedia: readonly string[]
}

export interface Plan {
  readonly requestsPerMinute: number
  readonly tokensPerMinute: number
  readonly concurrency: number
  /** `*` allows all. */
  readonly models: readonly string[]
  /** For all files and sessions of one account together. */
  readonly storageBytes: number
  /** The same for an account whose balance is 0. */
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
  /** How much of the file system files must leave free; by default nothing. */
  readonly reserveBytes?: number
}

export interface S3Config {
  readonly bucket: string
  /** The beginning of every object's key: '', or a text that ends with a slash. */
  readonly prefix: string
  readonly region: string
  /** Undefined for AWS. */
  readonly endpoint?: string
  readonly pathStyle: boolean
  /** When undefined, credentials are looked for where AWS tools look for them. */
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
  /** A body must come at least this fast on average. */
  readonly bodyBytesPerSecond: number
  /** The memory of all running uploads together. */
  readonly uploadsBytes: number
  /** All bytes of answers that clients have not taken yet, together. */
  readonly unsentBytes: number
  /** Readers of session streams and downloads, all accounts together. */
  readonly readers: number
  readonly heartbeatMs: number
  readonly readerStallMs: number
  readonly jsonBodyMs: number
  readonly headersMs: number
  readonly keepAliveMs: number
  /** An upload is ended when nothing of it arrives for this long. */
  readonly uploadIdleMs: number
  /** Bytes a second that an upload must reach over each `uploadIdleMs`. */
  readonly uploadRateBytes: number
  /** How long a stream waits for the first content before its status is 200. */
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
  readonly redis: RedisConfig
  readonly store: StoreConfig
  /** By id; it has no entries for aliases. */
  readonly models: ReadonlyMap<string, Model>
  readonly plans: ReadonlyMap<string, Plan>
  /** Each plugin's parsed block, by name; a plugin that is switched off has no entry. */
  readonly plugins: ReadonlyMap<string, unknown>
  readonly limits: Limits
  readonly log: {
    readonly level: 'debug' | 'info' | 'warn' | 'error' | 'silent'
    /** When undefined: `pretty` on a terminal, else `json`. */
    readonly format?: 'json' | 'pretty' | undefined
  }
  readonly drainMs: number
}
