// The public API of the package: the client, and the types that its users name.

import type { Send } from './attempt.ts'
import { Billing } from './billing.ts'
import { Chat } from './chat.ts'
import { TollgateError } from './errors.ts'
import { Files } from './files.ts'
import { Messages } from './messages.ts'
import { Models } from './models.ts'
import { env } from './runtime.ts'
import { Sessions } from './sessions.ts'
import { Transport } from './transport.ts'

export type {
  Allowance,
  AppliedPrice,
  Balance,
  Billing,
  Budget,
  Transaction,
  TransactionParams,
  Usage,
  UsageParams,
} from './billing.ts'
export type {
  Chat,
  ChatChoice,
  ChatCompletion,
  ChatMessage,
  ChatParams,
  ChatRequest,
  Completions,
  ContentPart,
  ToolCall,
} from './chat.ts'
export type { Chunk, ChunkChoice, Delta, TokenUsage, ToolCallDelta } from './chunk.ts'
export type { Download } from './download.ts'
export {
  APIError,
  AuthenticationError,
  BadRequestError,
  ConflictError,
  ConnectionError,
  IncompleteStreamError,
  InsufficientBalanceError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
  ServerError,
  TimeoutError,
  TollgateError,
} from './errors.ts'
export type { Problem } from './errors.ts'
export type { ContentOptions, FileListParams, FileObject, Files, UploadParams } from './files.ts'
export type { List, ListParams, Page } from './list.ts'
export type { MessageStream } from './message-stream.ts'
export type {
  Message,
  Messages,
  ResumeOptions,
  SendContent,
  SendMessage,
  SendParams,
  SendTurns,
} from './messages.ts'
export type { Model, ModelPrice, Models } from './models.ts'
export type { ListedSession, Session, SessionParams, Sessions } from './sessions.ts'
export type { ChatStream } from './stream.ts'
export type { CallOptions } from './transport.ts'
export type { OnProgress, Uploadable } from './upload.ts'
export { version } from './version.ts'

export interface TollgateOptions {
  /** By default `TOLLGATE_API_KEY` of the environment. Sent only to the base URL's origin. */
  readonly apiKey?: string | undefined
  /** With or without `/v1`. By default `TOLLGATE_BASE_URL` of the environment. */
  readonly baseURL?: string | undefined
  /** Attempts after the first; by default 2. */
  readonly maxRetries?: number | undefined
  /** ms to connect; by default 10 s, and at most 10 s. Node only: elsewhere the runtime's own, within `idleTimeout`. */
  readonly connectTimeout?: number | undefined
  /** The longest time in ms without a byte; by default 60 s. Infinity, here as elsewhere, means no limit. */
  readonly idleTimeout?: number | undefined
  /** ms until the head of an answer that is generated and not streamed; by default 600 s. */
  readonly answerTimeout?: number | undefined
  /** Sent with each request, only to the base URL's origin. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Replaces the runtime's fetch: for your own HTTP client, a proxy, or a log. */
  readonly fetch?: ((url: string, init: RequestInit) => Promise<Response>) | undefined
}

/** A Tollgate gateway, used with one key. It keeps no connections of its own: there is nothing to close. */
export class Tollgate {
  readonly chat: Chat
  readonly sessions: Sessions
  readonly messages: Messages
  readonly files: Files
  readonly billing: Billing
  readonly models: Models

  /** Throws a TollgateError when the key or the address is missing or invalid. */
  constructor(options: TollgateOptions = {}) {
    const transport = new Transport({
      apiKey: keyOf(options.apiKey ?? env('TOLLGATE_API_KEY')),
      base: baseOf(options.baseURL ?? env('TOLLGATE_BASE_URL')),
      maxRetries: options.maxRetries ?? 2,
      connectTimeout: options.connectTimeout ?? 10_000,
      idleTimeout: options.idleTimeout ?? 60_000,
      answerTimeout: options.answerTimeout ?? 600_000,
      headers: options.headers ?? {},
      send: sendOf(options.fetch),
    })
    this.chat = new Chat(transport)
    this.sessions = new Sessions(transport)
    this.messages = new Messages(transport)
    this.files = new Files(transport)
    this.billing = new Billing(transport)
    this.models = new Models(transport)
  }
}

/** Some implementations of fetch must be called without a `this`. */
function sendOf(own: TollgateOptions['fetch']): Send | undefined {
  return own && ((url, init) => own(url, init))
}

/** Checked here, because fetch's own error about an invalid header would contain the key. */
function keyOf(key = ''): string {
  const trimmed = key.trim()
  if (trimmed === '') throw new TollgateError('An API key is needed: apiKey, or TOLLGATE_API_KEY.')
  if (/^[!-~]+$/.test(trimmed)) return trimmed
  throw new TollgateError('The API key has characters that no key has.')
}

function baseOf(text = ''): string {
  if (text === '') throw new TollgateError('A base URL is needed: baseURL, or TOLLGATE_BASE_URL.')
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !/^https?:$/.test(url.protocol) || url.search || url.hash) {
    throw new TollgateError('The base URL is none such as https://gate.example.com/v1.')
  }
  // Otherwise every message of fetch that names the address would contain them.
  if (url.username || url.password)
    throw new TollgateError('A base URL has no user and no password.')
  return `${url.origin}${url.pathname.replace(/\/+$/, '').replace(/\/v1$/, '')}`
}
