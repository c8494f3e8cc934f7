// Stateless chat, with the names that OpenAI's SDK uses.

import type { TokenUsage } from './chunk.ts'
import { ChatStream } from './stream.ts'
import { pathTo } from './transport.ts'
import type { CallOptions, Transport } from './transport.ts'

export type ContentPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image_url'; readonly image_url: { readonly url: string } }
  | { readonly type: 'file'; readonly file: { readonly file_id: string } }

export interface ChatMessage {
  readonly role: 'system' | 'developer' | 'user' | 'assistant' | 'tool' | (string & {})
  readonly content?: string | readonly ContentPart[] | null | undefined
  readonly tool_calls?: readonly ToolCall[] | null | undefined
  readonly tool_call_id?: string | undefined
  readonly [name: string]: unknown
}

export interface ToolCall {
  readonly id: string
  readonly type: string
  readonly function: { readonly name: string; readonly arguments: string }
  readonly [name: string]: unknown
}

/** The parameters of Chat Completions; parameters that are not listed here are sent to the model as well. */
export interface ChatParams {
  /** By default the gateway's first model that can chat. */
  readonly model?: string | null | undefined
  readonly max_tokens?: number | null | undefined
  readonly max_completion_tokens?: number | null | undefined
  readonly temperature?: number | null | undefined
  readonly top_p?: number | null | undefined
  readonly stop?: string | readonly string[] | null | undefined
  readonly seed?: number | null | undefined
  readonly tools?: readonly object[] | null | undefined
  readonly tool_choice?: string | object | null | undefined
  readonly response_format?: object | null | undefined
  readonly reasoning_effort?: string | null | undefined
  readonly [name: string]: unknown
}

export interface ChatRequest extends ChatParams {
  readonly model: string
  readonly messages: readonly ChatMessage[]
  readonly stream?: boolean | null | undefined
}

export interface ChatChoice {
  readonly index: number
  readonly message: ChatMessage & { readonly content: string | null }
  readonly finish_reason: string | null
  readonly [name: string]: unknown
}

export interface ChatCompletion {
  readonly id: string
  readonly object: string
  readonly created: number
  readonly model: string
  readonly choices: readonly ChatChoice[]
  readonly usage?: TokenUsage | null
  readonly [name: string]: unknown
}

export class Completions {
  readonly #transport: Transport

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /**
   * The answer to a list of messages; with `stream: true` its stream. The gateway keeps nothing of it, and leaving
   * the stream ends the generation. There is no idempotency key: the request is sent again when it was refused (not by
   * a 504), and after a lost connection only if it surely reached no server.
   */
  create(body: ChatRequest & { readonly stream: true }, options?: CallOptions): Promise<ChatStream>
  create(
    body: ChatRequest & { readonly stream?: false | null },
    options?: CallOptions,
  ): Promise<ChatCompletion>
  create(body: ChatRequest, options?: CallOptions): Promise<ChatStream | ChatCompletion>
  async create(body: ChatRequest, options?: CallOptions): Promise<ChatStream | ChatCompletion> {
    const call = {
      method: 'POST',
      path: pathTo('v1', 'chat', 'completions'),
      json: body,
      isGenerated: true,
      isPaid: true,
    } as const
    if (body.stream !== true) return await this.#transport.json(call, options)
    return new ChatStream(await this.#transport.open({ ...call, isStream: true }, options))
  }
}

export class Chat {
  readonly completions: Completions

  /** @internal */
  constructor(transport: Transport) {
    this.completions = new Completions(transport)
  }
}
