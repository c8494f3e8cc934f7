// A chunk of an answer: the event's JSON as it came, with easy access to its text.

import { TollgateError } from './errors.ts'

/** Fields that are not listed here are kept, too. */
export interface Delta {
  readonly role?: string
  readonly content?: string | null
  readonly reasoning_content?: string | null
  readonly tool_calls?: readonly ToolCallDelta[]
  readonly [name: string]: unknown
}

export interface ToolCallDelta {
  readonly index: number
  readonly id?: string
  readonly type?: string
  readonly function?: { readonly name?: string; readonly arguments?: string }
  readonly [name: string]: unknown
}

export interface ChunkChoice {
  readonly index: number
  readonly delta?: Delta
  readonly finish_reason?: string | null
  readonly [name: string]: unknown
}

export interface Chunk {
  /** The text of choice 0; empty when the chunk has none. */
  readonly text: string
  readonly id?: string
  readonly object?: string
  readonly created?: number
  readonly model?: string
  readonly choices: readonly ChunkChoice[]
  /** In the last chunk, if the request asked for it. */
  readonly usage?: TokenUsage | null
  readonly [name: string]: unknown
}

export interface TokenUsage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly total_tokens: number
  /** true when the gateway counted the tokens itself, because the backend reported nothing. */
  readonly estimated?: boolean
  /** Of the prompt, read from a cache: in transactions. */
  readonly cached_tokens?: number
  readonly [name: string]: unknown
}

interface Said {
  readonly choices?: unknown
}

/** The getter is on the prototype, so that the chunk has only the fields that came, also as JSON. */
const prototype = {
  get choices(): readonly ChunkChoice[] {
    return []
  },
  get text(): string {
    return textOf(this)
  },
}

/** Callers check first for an `error` that is not null: such an event is not a chunk. */
export function chunkOf(data: string): Chunk & { readonly error?: unknown } {
  const json = objectOf(data)
  return Object.setPrototypeOf(json, prototype) as Chunk
}

function objectOf(data: string): object {
  let json: unknown
  try {
    json = JSON.parse(data)
  } catch (cause) {
    throw new TollgateError('An event of the stream is no JSON.', { cause })
  }
  if (typeof json === 'object' && json !== null && !Array.isArray(json)) return json
  throw new TollgateError('An event of the stream is no JSON object.')
}

function textOf({ choices }: Said): string {
  if (!Array.isArray(choices)) return ''
  const all = choices as readonly (ChunkChoice | null)[]
  const [first] = all
  const choice = first && !first.index ? first : all.find((one) => one?.index === 0)
  const content: unknown = choice?.delta?.content
  return typeof content === 'string' ? content : ''
}
