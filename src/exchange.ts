// One request from arrival to settlement: its route, its answer, and what every plugin may know of it. What only one
// plugin needs is a local variable of that plugin's `begin`, not a field here.

import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { GatewayError } from './errors.ts'
import type { CountedRequest, ErrorCode } from './errors.ts'
import type { Alarm } from './backend/generated.ts'
import type { Meter } from './backend/usage.ts'
import type { BodyShare } from './http/body.ts'
import type { StopReason } from './ledger/hold.ts'
import type { Want } from './ledger/want.ts'
import type { StreamOut } from './http/client-stream.ts'
import type { TokenCounts } from './tokens/token-counts.ts'
import type { Claim } from './redis/claims.ts'

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
  /** The client's address; behind trusted proxies, the forwarded address. */
  readonly ip: string
  /** `performance.now()` at arrival. */
  readonly arrivedAt: number
  /** Fires when the drain time is over, and when the client leaves if the route has `abortOnLeave`. `reason` is a GatewayError, or ClientLeft. */
  readonly signal: AbortSignal
  /** Headers that go out with every answer, refusals included. */
  readonly replyHeaders: Record<string, string>
  /** The whole body, once it is read; empty when the route takes none, and after forgetBody(). */
  readonly body: Buffer
  /** Drops the body: a body can have megabytes, and an answer can take half an hour. */
  forgetBody(): void
  /** This exchange's part of the memory for bodies, its own body included; given back when the exchange ends. */
  readonly memory: BodyShare
  /** The request with its body unread, if the route's `body` is `stream`. */
  readonly incoming?: IncomingMessage | undefined
  /** Fires when the client closes before the answer is complete. */
  readonly left: AbortSignal
  /** Who calls. With a key: as its text says, not verified yet; set by the auth plugin's `check`. On the account page: as a verified log-in says. */
  caller?: Caller | undefined
  /** Settles when Redis has said whether the key is good; set by the auth plugin when it asks Redis. */
  proof?: Promise<Identity> | undefined
  /** The verified caller; set by who asked Redis: auth, metering on metered routes, or the account page for a log-in. */
  identity?: Identity | undefined
  /** This exchange's claim on the Idempotency-Key of a creating call. The script that creates the resource makes a pointer to the resource of it. */
  claim?: Claim | undefined
  /** What a metered route wants to hold, set by its `identify`, taken back by idempotency for a repetition, read by metering's `admit`. */
  want?: Want | undefined
  /** The most tokens that each choice may generate, as metering's `admit` granted. */
  grantedPerChoice?: number | undefined
  /** For the meter; set by metering when the hold is made in slices. */
  alarm?: Alarm | undefined
  /** Reads what the backend generates; set when the backend is asked. */
  meter?: Meter | undefined
  /** Set by the generation. Metering calls it to stop the generation when the ledger says so. */
  stop?: ((code: StopReason) => void) | undefined
  /** Set by metering when the ledger says stop. A generation that has not begun by then reads it when it begins. */
  stopped?: StopReason | undefined
  /** Set by the generation: no further event is metered or handed on before `until` has resolved. Metering calls it while a hold is extended. */
  pause?: ((until: Promise<unknown>) => void) | undefined
  /** Set by a generation that goes on after its client has left: the client's leaving then does not abort `signal`. */
  finishesAlone: boolean
  /** A generation that outlives its answer. The exchange is not settled before it ends, even when the answer was cut off. Never rejects. */
  work?: Promise<unknown> | undefined
  /** Set by the settlement: resolves when the settlement is on the wire to Redis. The last byte of the answer waits for it. Never rejects. */
  written?: Promise<void> | undefined
  /** For the log line and the metrics; filled along the way. */
  readonly facts: Facts
}

export interface Caller {
  /** The 12 characters in the key that name the account. */
  readonly ref: string
  /** HMAC-SHA-256 of the key, base64url; of a log-in, the hash of its cookie. */
  readonly hmac: string
  /** The scope that the route requires; '' requires none. */
  readonly scope: Scope | ''
}

/** What Redis says of a valid key, or of a log-in on the account page. */
export interface Identity {
  /** '' for a log-in. */
  readonly keyId: string
  readonly accountId: string
  readonly plan: string
  /** The models that the key may use; `*` allows all. Undefined when the script that made the hold also checked the key. */
  readonly models?: readonly string[]
  /** The key's own limit. */
  readonly tokensPerMinute?: number | undefined
  /** On routes without a hold, if the plugin limits is on: what was counted when the key was checked. Undefined when Redis' memory was full. */
  readonly requests?: CountedRequest | undefined
}

export interface Facts {
  /** Of OpenTelemetry; set by the plugin traces. */
  traceId?: string
  /** Of an operator's call: the account and the key that it is about, once they are found. */
  accountId?: string
  keyId?: string
  model?: string
  /** The target that was asked last. */
  target?: string
  /** The attempts before the last one. */
  failed?: readonly FailedAttempt[]
  /** ms from arrival to the beginning of the last attempt. */
  askedMs?: number
  /** What is charged for. */
  tokens?: TokenCounts
  cost?: number
  /** In shadow mode: the part of `cost` that nobody has to pay, once Redis has said it. */
  unpaid?: Promise<number>
  estimated?: boolean
  basis?: 'reported' | 'counted' | 'none'
  stream?: boolean
  /** In how many pieces a stream was handed on. */
  flushes: number
  /** In shadow mode: the error code with which this request would have been refused, or its answer cut. */
  wouldRefuse?: ErrorCode | undefined
  /** ms from arrival to the first backend request sent. */
  overheadMs?: number
  /** ms from the backend request sent to the first content. */
  firstTokenMs?: number
  upstreamMs?: number
}

interface FailedAttempt {
  readonly target: string
  /** The error's code. */
  readonly outcome: string
  readonly ms: number
  /** The backend's own words about its limits. */
  readonly said: string | undefined
}

/** How an exchange ended; handed to every `done`. */
export interface Outcome {
  /** The status of the answer. 499 when the client left before there was one, or in the middle of a download or of a stream that is only read; not when it left in the middle of a generation's answer. */
  readonly status: number
  readonly error?: GatewayError
  /** The client closed before the answer was complete. */
  readonly clientLeft: boolean
  /** Whether a backend request was fully sent: if so, a client that leaves or cancels owes at least the prompt. A failure before any content costs nothing. */
  readonly backendAsked: boolean
  /**
   * The answer came to its end: the JSON is whole; or each choice that came has finished; or the gateway has cut it as
   * if it had reached its length. True also for an answer without a backend, unless it failed.
   */
  readonly complete: boolean
  /** The ledger cut the output: the money of its hold was used up, or the ledger no longer knows the hold. */
  readonly cut: boolean
}

export type Scope = 'chat' | 'sessions' | 'files' | 'billing'

export interface Route {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE' | 'OPTIONS'
  /** find-my-way's syntax. A path under `/api` is served under `/v1/api` too. */
  readonly path: string
  readonly listener?: 'public' | 'admin'
  /** The parameters that the query may have, by default none; under `/api` and `/admin` all others are refused. */
  readonly query?: readonly string[]
  /** Who may call: a key with this scope, any key, the admin token, or anybody. `cookie` is for the account page's own routes, which check its cookie themselves; no key opens them. */
  readonly access: Scope | 'any-key' | 'cookie' | 'admin-token' | 'anybody'
  /** `json` is read whole before `identify`; `stream` is left to `serve`, as `x.incoming`. */
  readonly body: 'none' | 'json' | 'stream'
  /** In bytes; required when `body` is `json`. */
  readonly maxBytes?: number
  /** Of a text over 64 KiB in a JSON body, `serve` needs only this many characters from its beginning; by default all. */
  readonly keptChars?: number
  /** The route holds money. One script then checks the key, checks the limits and makes the hold; if the route also `creates`, the key is checked before, in `identify`. */
  readonly metered?: boolean
  /** Takes an Idempotency-Key: `serve` (or `admit`) keeps `x.claim` in the script that creates the resource. */
  readonly creates?: boolean
  /** Answers again with what a claim's pointer stands for. Required when the route `creates`. */
  replay?(x: Exchange, pointer: string): Promise<Answer>
  /** A repeated request waits for the first try and then reads its stream too; without this it is refused as `idempotency_in_progress`. */
  readonly awaitsFirst?: boolean
  /** x.signal fires when the client leaves. */
  readonly abortOnLeave?: boolean
  /** Called once for each exchange, before the plugins' `begin`; its hooks run after those of its plugin. State of the exchange is kept in local variables of this function. */
  begin(x: Exchange): Serving
}

/** A route's part in one exchange: what a plugin may do, and the answer. */
export interface Serving extends Hooks {
  serve(run: Run): Promise<Answer>
}

/** The functions of the lifecycle that `serve` may call. */
export interface Run {
  /** Gives an event to every plugin's `event`, in order; undefined when no plugin has one. */
  readonly event: ((event: SseEvent) => void) | undefined
  /** Calls every plugin's `upstream`, in order. */
  upstream(request: BackendRequest): void
  /** Calls every `done`, once. Resolves when the settlement is on the wire: call it before the last byte goes out. */
  finish(outcome: Outcome): Promise<void> | undefined
}

export type Answer =
  | {
      readonly status: number
      readonly headers?: Readonly<Record<string, string>>
      readonly body: string | Buffer
      /** `latin1`: each char of a string is a byte, as in an SseEvent. */
      readonly encoding?: 'latin1' | undefined
    }
  | {
      readonly status: number
      readonly headers: Readonly<Record<string, string>>
      /**
       * Writes the body. The body of a generation resolves when its work has ended, even if the client has left before.
       * The body of a stream that is only read also resolves when the client has left.
       */
      stream(out: StreamOut): Promise<void>
    }
  | {
      readonly status: number
      readonly headers: Readonly<Record<string, string>>
      /** Sent as it arrives, with back-pressure; a chunk's memory is freed once it is sent. Destroyed when the client leaves or takes nothing. The length is in the headers. */
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
  /** In pieces, which may be views of the client's body: a plugin may replace a piece, but must not write into it. */
  body: readonly Buffer[]
}

/** A plugin's functions for one exchange, in the order in which they run. */
export interface Hooks {
  /** Sees the headers only, does no I/O: refuses what can be refused for free. */
  check?(): void
  /** Called only before more than 4 KiB of a body is read: throws unless the caller's key is good. */
  vouch?(): Promise<void>
  /** The body has been read. The calls of all plugins start in one tick: key, idempotency claim, the session that a route reads. May answer (a replay). */
  identify?(): Promise<Answer | void> | void
  /** A plugin's `identify` has answered, so `admit` and `serve` are not called: drops what was prepared for these two, and may refuse. The calls of all plugins start in one tick. */
  answered?(): Promise<void> | void
  /** The calls of all plugins start in one tick again: limits and hold for x.want, with the rows and locks that belong to the hold. */
  admit?(): Promise<void>
  /** The last change to what a backend gets; runs on a fresh copy for each attempt. */
  upstream?(request: BackendRequest): void
  /** Called with each backend event but `[DONE]`, before the client sees it, as long as anybody waits for the answer; may replace its data. Another target may be asked after events without content: these are dropped then, and a plugin sees that by a further call of its `upstream`. A non-streamed answer is one event. Must not be async: this is the token path. */
  event?(event: SseEvent): void
  /** Called before a refusal is sent. May replace the error, for instance by 429 after too many failures. Must not wait. */
  refuse?(error: GatewayError): GatewayError | void
  /** Called exactly once, last plugin first, whatever happened, even if `admit` never ran. Resolves when everything that must precede the last byte is sent. */
  done?(outcome: Outcome): void | Promise<void>
  /** `done` is awaited without a time limit, because it only computes and so always ends. Not for a `done` that waits for a network. */
  readonly doneEnds?: boolean
}

/** The `begin` of a route that needs no hooks. */
export function answering(serve: (x: Exchange) => Promise<Answer>): Route['begin'] {
  return (x) => ({ serve: () => serve(x) })
}

/** An answer of JSON. */
export function json(
  body: object,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return { status, headers, body: JSON.stringify(body) }
}

/** The caller's account ref, as in the keys of Redis. Throws `missing_api_key` when the request has no caller. */
export function refOf({ caller }: Pick<Exchange, 'caller'>): string {
  if (!caller) throw new GatewayError('missing_api_key')
  return caller.ref
}
