// A session's messages: send, read again, stop.

import type { Attempt } from './attempt.ts'
import type { ChatMessage, ChatParams, ContentPart, ToolCall } from './chat.ts'
import type { TokenUsage } from './chunk.ts'
import { listAt } from './list.ts'
import type { List, ListParams } from './list.ts'
import { MessageStream } from './message-stream.ts'
import type { MessageCalls } from './message-stream.ts'
import { toSession } from './sessions.ts'
import type { Call, CallOptions, Transport } from './transport.ts'

export interface Message {
  readonly id: string
  readonly object: 'chat.message'
  readonly session_id: string
  readonly role: 'user' | 'assistant' | 'tool' | (string & {})
  readonly content: string | readonly ContentPart[] | null
  readonly tool_calls: readonly ToolCall[] | null
  /** Only of role `tool`: the call whose result this is. */
  readonly tool_call_id?: string
  readonly name?: string
  readonly reasoning: string | null
  readonly status:
    'in_progress' | 'completed' | 'cancelled' | 'failed' | 'incomplete' | (string & {})
  readonly finish_reason: string | null
  readonly model: string | null
  readonly usage: TokenUsage | null
  /** In tokens of the balance. */
  readonly cost: number | null
  readonly error: Readonly<Record<string, unknown>> | null
  readonly created_at: number
  readonly completed_at: number | null
  readonly [name: string]: unknown
}

export interface SendParams extends ChatParams {
  /** What happens to the answer when its reader leaves; by default it is still generated. */
  readonly on_disconnect?: 'continue' | 'cancel' | undefined
  readonly stream?: boolean | null | undefined
}

/** What the user says, with files of the session by their ids. */
export interface SendContent extends SendParams {
  readonly content: string | readonly ContentPart[]
  readonly files?: readonly string[] | undefined
  readonly messages?: undefined
}

/** Or the new turns; the last one is of a user or a tool. */
export interface SendTurns extends SendParams {
  readonly messages: readonly ChatMessage[]
  readonly content?: undefined
  readonly files?: undefined
}

export type SendMessage = SendContent | SendTurns

export interface ResumeOptions extends CallOptions {
  /** `lastEventId` of the earlier stream; by default the stream is read from its start. */
  readonly lastEventId?: string | null | undefined
}

export class Messages {
  readonly #transport: Transport

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /**
   * Sends to a session, and resolves with the stream of the answer; with `stream: false` with the finished message.
   * If it is sent again with the same idempotency key, it is still one message.
   */
  create(
    sessionId: string,
    message: SendMessage & { readonly stream: false },
    options?: CallOptions,
  ): Promise<Message>
  create(
    sessionId: string,
    message: SendMessage & { readonly stream?: true | null },
    options?: CallOptions,
  ): Promise<MessageStream>
  create(
    sessionId: string,
    message: SendMessage,
    options?: CallOptions,
  ): Promise<MessageStream | Message>
  async create(
    sessionId: string,
    message: SendMessage,
    options: CallOptions = {},
  ): Promise<MessageStream | Message> {
    const path = toSession(sessionId, 'messages')
    const isStream = message.stream !== false
    const json = { ...withFiles(message), stream: isStream }
    const call: Call = { method: 'POST', path, json, isStream, isGenerated: true }
    if (!isStream) return await this.#transport.json(call, options)
    const attempt = await this.#transport.open(call, options)
    return new MessageStream(attempt, this.#callsOf(sessionId, options))
  }

  async retrieve(sessionId: string, id: string, options?: CallOptions): Promise<Message> {
    const path = toSession(sessionId, 'messages', id)
    return await this.#transport.json({ method: 'GET', path }, options)
  }

  /** Oldest first by default. */
  list(sessionId: string, params: ListParams = {}, options?: CallOptions): List<Message> {
    const path = toSession(sessionId, 'messages')
    return listAt(this.#transport, path, { query: params, options })
  }

  /** Stops the generation, from any process. Resolves with the message as it ended. */
  async cancel(sessionId: string, id: string, options?: CallOptions): Promise<Message> {
    const path = toSession(sessionId, 'messages', id, 'cancel')
    return await this.#transport.json({ method: 'POST', path }, options)
  }

  /**
   * The stream again, from the start or after `lastEventId`: what was missed, then what is still generated. The gateway
   * keeps it for 15 minutes after its end; then it throws NotFoundError `stream_expired`: retrieve the message.
   */
  async resume(
    sessionId: string,
    id: string,
    { lastEventId, ...options }: ResumeOptions = {},
  ): Promise<MessageStream> {
    const attempt = await this.#openAgain(sessionId, id, { ...options, lastEventId })
    const calls = this.#callsOf(sessionId, options)
    return new MessageStream(attempt, {
      ...calls,
      messageId: id,
      lastEventId: lastEventId ?? undefined,
    })
  }

  /** The stream of the answer that is being generated, from its start; null when there is none. */
  async active(sessionId: string, options: CallOptions = {}): Promise<MessageStream | null> {
    const path = toSession(sessionId, 'stream')
    const attempt = await this.#transport.open({ method: 'GET', path, isStream: true }, options)
    if (attempt.response.status === 204) return null
    return new MessageStream(attempt, this.#callsOf(sessionId, options))
  }

  async #openAgain(
    sessionId: string,
    id: string,
    { lastEventId, ...options }: ResumeOptions,
  ): Promise<Attempt> {
    const path = toSession(sessionId, 'messages', id, 'stream')
    const headers = lastEventId ? { 'last-event-id': lastEventId } : {}
    return await this.#transport.open({ method: 'GET', path, headers, isStream: true }, options)
  }

  #callsOf(sessionId: string, options: CallOptions): MessageCalls {
    return {
      signal: options.signal,
      resume: (id, lastEventId, signal) =>
        this.#openAgain(sessionId, id, { ...options, lastEventId, signal, maxRetries: 0 }),
      retrieve: (id, signal) => this.retrieve(sessionId, id, { ...options, signal }),
      cancel: (id) => this.cancel(sessionId, id, { ...options, signal: undefined }),
    }
  }
}

/** `files` exists only in this library: the gateway has parts. */
function withFiles({ files, ...message }: SendMessage): object {
  if (!files || files.length === 0) return message
  const { content } = message
  const said = typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? [])
  const parts = files.map((id) => ({ type: 'file', file: { file_id: id } }))
  return { ...message, content: [...said, ...parts] }
}
