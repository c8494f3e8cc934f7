// One request from arrival to settlement: its route, its answer, and what every plugin may know of it. What only one plugin needs
// is a local variable of that plugin's `begin`, not a field here.

import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import type { GatewayError } from './errors.ts'
import type { Model } from './config/config.ts'
import type { Meter } from './backend/usage.ts'
import type { BodyClaim } from './http/body.ts'
import type { StopReason } from './ledger/hold.ts'
import type { StreamOut } from './http/stream-out.ts'

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
  /** The key's own limit. */
  tokensPerMinute?: number | undefined
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

/** The estimate before a generation (ledger.md, Estimating). Counts are tokens of the model. */
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

export type Scope = 'chat' | 'sessions' | 'files' | 'billing'

export interface Route {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE' | 'OPTIONS'
  /** find-my-way's syntax. A path under `/api` is served under `/v1/api` too. */
  readonly path: string
  readonly listener?: 'public' | 'admin'
  /** The parameters that its query may have; under `/api` and `/admin` all others are refused. None where not given. */
  readonly query?: readonly string[]
  /** Who may call: a key with this scope, any key, the admin token, or anybody. */
  readonly access: Scope | 'any-key' | 'admin-token' | 'anybody'
  /** `json` is read whole before `identify`; `stream` is left to `serve`, as `x.incoming`. */
  readonly body: 'none' | 'json' | 'stream'
  /** Bytes; needed with a body. */
  readonly maxBytes?: number
  /** Of texts over 64 KiB in a JSON body, `serve` needs no more than this beginning; all where not given. */
  readonly keptChars?: number
  /** Holds money: identified, limited and held in one script instead of `identify`, but where it `creates`. */
  readonly metered?: boolean
  /** Takes an Idempotency-Key: `serve` (or `admit`) writes `x.claim` in the same script as what it creates. */
  readonly creates?: boolean
  /** What a claim's pointer stands for, answered again. Needed where the route `creates`. */
  replay?(x: Exchange, pointer: string): Promise<Answer>
  /** A repetition waits for the first try, to read its stream along; elsewhere it is `idempotency_in_progress`. */
  readonly awaitsFirst?: boolean
  /** The client's leaving fires x.signal. */
  readonly abortOnLeave?: boolean
  serve(x: Exchange, run: Run): Promise<Answer>
}

/** What `serve` may call of the life around it. */
export interface Run {
  /** Gives an event to every plugin's `event`, in order. `undefined` where no plugin listens. */
  readonly event: ((event: SseEvent) => void) | undefined
  /** Every plugin's `upstream`, in order. */
  upstream(request: BackendRequest): void
  /** Starts every `done`, once. Resolves when settlements are on the wire: call it before the last byte goes out. */
  finish(outcome: Outcome): Promise<void> | undefined
}

export type Answer =
  | {
      readonly status: number
      readonly headers?: Readonly<Record<string, string>>
      readonly body: string | Buffer
    }
  | {
      readonly status: number
      readonly headers: Readonly<Record<string, string>>
      /** Writes the body and resolves when the work has ended, not when the client has left. */
      stream(out: StreamOut): Promise<void>
    }
  | {
      readonly status: number
      readonly headers: Readonly<Record<string, string>>
      /** Sent as it comes, with back-pressure, its chunks freed then; destroyed when the client leaves or takes nothing. Its length is in the headers. */
      readonly content: Readable
    }

/** One event of a backend's stream, or a whole JSON answer as one. `data` is latin1: one char a byte, never decoded. */
export interface SseEvent {
  readonly event: string | undefined
  data: string
}

/** What goes to a backend; a fresh copy for each attempt. */
export interface BackendRequest {
  readonly path: string
  readonly headers: Record<string, string>
  /** In pieces, which may be views of what the client sent: to be replaced, not to be written to. */
  body: readonly Buffer[]
}
