// One request from arrival to settlement: what every plugin may know of it. What only one plugin needs
// is a local variable of that plugin's `begin`, not a field here.

import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { GatewayError } from './errors.ts'
import type { Model } from './config/config.ts'
import type { Meter } from './backend/usage.ts'
import type { BodyClaim } from './http/body.ts'
import type { StopReason } from './ledger/hold.ts'
import type { Route } from './plugin.ts'

export interface Exchange {
  /** `req_…`; goes out as X-Request-Id and finds the log line. */
  readonly id: string
  readonly route: Route
  readonly method: string
  /** Without the query. */
  readonly path: string
  readonly query: URLSearchParams
  readonly params: Readonly<Record<string, string | undefined>>
  readonly headers: IncomingHttpHeaders
  /** The client's address, behind trusted proxies the forwarded one. */
  readonly ip: string
  /** `performance.now()` at arrival. */
  readonly arrivedAt: number
  /** Fires on drain's end, and on disconnect where the route says so. `reason` is a GatewayError, or undefined for a client that left. */
  readonly signal: AbortSignal
  /** Go out with every answer, refusals too. */
  readonly replyHeaders: Record<string, string>
  /** The whole body, once read; empty where the route takes none. */
  body: Buffer
  /** What it takes of the memory for bodies, its own body included; given back when it ends. */
  readonly memory: BodyClaim
  /** The request with its body unread, where the route takes a stream. */
  readonly incoming?: IncomingMessage | undefined
  /** Who calls; set by the auth plugin's `check`, its account's name and plan known only after Redis answered. */
  caller?: Caller | undefined
  /** The Idempotency-Key of a creating call, claimed by this exchange; written with what it creates. */
  claim?: Claim | undefined
  /** The client closed before the answer was complete. */
  hasLeft: boolean
  /** Called when it does. */
  onLeave?: (() => void) | undefined
  /** What a metered route wants to hold, set by its `identify`, read by metering's `admit`. */
  want?: Want | undefined
  /** What metering's `admit` granted. */
  granted?: Granted | undefined
  /** Reads what the backend generates; set when it is asked. */
  meter?: Meter | undefined
  /** Set by a generation: stops it because the ledger says so. */
  stop?: ((code: StopReason) => void) | undefined
  /** Set by a generation that goes on though its client has left: leaving does not abort `signal`. */
  finishesAlone: boolean
  /** A generation that outlives its answer: nobody settles before it has, also where the answer was cut off. Never rejects. */
  work?: Promise<unknown> | undefined
  /** Set where it is settled: resolves when the settlement is on the wire. The last byte waits for it. Never rejects. */
  written?: Promise<void> | undefined
  /** For the log line and the metrics; filled along the way. */
  readonly facts: Facts
}

export interface Caller {
  /** The 12 characters of the account that stand in the key. */
  readonly ref: string
  /** HMAC-SHA-256 of the key, base64url. */
  readonly hmac: string
  /** Settles when Redis has said whether the key is good; undefined where it has not been asked. */
  proof?: Promise<unknown>
  keyId?: string
  accountId?: string
  plan?: string
  /** The models that the key may use; `*` allows all. */
  models?: readonly string[]
}

/** A first try that runs. A script that creates checks that `key` still holds `running`, then puts `kept` there for a day. */
export interface Claim {
  /** Of Redis. */
  readonly key: string
  readonly running: string
  /** What a repetition is led to by the route's `replay`: ids, at most 100 characters. */
  kept(pointer: string): string
  /** Set by who wrote it: the claim is not let go when the exchange ends. */
  isKept: boolean
}

/** The estimate before a generation (docs/money.md#before-the-hold). Counts are tokens of the model. */
export interface Want {
  readonly model: Model
  readonly promptTokens: number
  /** The prompt by the tokenizer, asked only where a backend reports nothing; the estimate stands where there is none. */
  readonly countPrompt?: () => Promise<number>
  /** Of the prompt: a backend that reports more is not believed. */
  readonly mostPrompt: number
  /** The most that all choices together may generate; 0 where the endpoint generates nothing. */
  readonly outputTokens: number
  /** How many choices the output is divided over: n × prompts. */
  readonly choices: number
  readonly fields: WantedFields
  readonly sessionId?: string
  readonly messageId?: string
}

/** Of the request's body, for refusals. */
export interface WantedFields {
  readonly prompt: string
  /** Bounds the output; undefined where the client did not. */
  readonly bound: string | undefined
}

export interface Granted {
  readonly holdId: string
  /** Balance tokens. */
  readonly amount: number
  /** Output tokens for each choice that the amount affords; ≤ what was wanted. */
  readonly outputPerChoice: number
}

export interface Facts {
  model?: string
  target?: string
  promptTokens?: number
  cachedTokens?: number
  completionTokens?: number
  cost?: number
  estimated?: boolean
  basis?: 'reported' | 'counted' | 'none'
  stream?: boolean
  /** ms from arrival to the backend request sent. */
  overheadMs?: number
  /** ms from the backend request sent to the first content. */
  firstTokenMs?: number
  upstreamMs?: number
}

/** How an exchange ended; handed to every `done`. */
export interface Outcome {
  /** The status that went out, 499 where the client left before one did. */
  readonly status: number
  readonly error?: GatewayError
  /** The client closed before the answer was complete. */
  readonly clientLeft: boolean
  /** Whether a backend request was fully sent; with `clientLeft` it costs at least the prompt. */
  readonly backendAsked: boolean
  /** The backend's answer was complete: JSON whole, or every choice finished. */
  readonly complete: boolean
  /** The output ran into the end of its money. */
  readonly cut: boolean
}
