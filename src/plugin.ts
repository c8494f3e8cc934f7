// The door that every feature goes through, built in or an operator's own: declared once (Plugin), running once
// a configuration (Running), hooked once an exchange (Hooks). lifecycle.ts calls them in the order written here.

import type { Readable } from 'node:stream'
import type { ZodType } from 'zod'
import type { GatewayError } from './errors.ts'
import type { Exchange, Outcome } from './exchange.ts'
import type { Gateway } from './gateway.ts'
import type { StreamOut } from './http/stream-out.ts'

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
