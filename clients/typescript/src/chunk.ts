// A chunk of an answer: the event's JSON, as it came, with its text at hand.

import { TollgateError } from './errors.ts'

/** What is not named here is kept all the same. */
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
  /** Of choice 0; empty where it says nothing. */
  readonly text: string
  readonly id?: string
  readonly object?: string
  readonly created?: number
  readonly model?: string
  readonly choices: readonly ChunkChoice[]
  /** In the last one, where it was asked for. */
  readonly usage?: TokenUsage | null
  readonly [name: string]: unknown
}

export interface TokenUsage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly total_tokens: number
  /** true: the gateway's own count, where the backend said nothing. */
  readonly estimated?: boolean
  readonly [name: string]: unknown
}

interface Said {
  readonly choices?: unknown
}

/** On the prototype, so that a chunk's own fields, and its JSON, are those that came. */
const prototype = {
  get choices(): readonly ChunkChoice[] {
    return []
  },
  get text(): string {
    return textOf(this)
  },
}

/** An `error` that is not null is no chunk: whoever calls looks at it first. */
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
