// Puts a message together from the chunks of its stream: text, reasoning, calls of tools, how it finished. Trusts no
// backend: data that is no chunk adds nothing and never throws. A snapshot lets another process continue the assembly.
// `ended` makes the message's final row of it: what was said, how the message ended, what it cost.

import { FlatText } from '../../backend/flat-text.ts'
import { Pattern } from '../../backend/pattern.ts'
import { latin1 } from '../../chat/frames.ts'
import type { Ending } from '../../chat/generating.ts'
import { GatewayError } from '../../errors.ts'
import type { Facts } from '../../exchange.ts'
import { field, parsed } from '../../http/json/field.ts'
import { noTokens, toUsage } from '../../tokens/token-counts.ts'
import type { TokenCounts } from '../../tokens/token-counts.ts'
import { maxToolCalls } from '../sending/content.ts'
import type { MessageStatus, StoredMessage, ToolCall } from '../message.ts'

export interface Assembled {
  /** The text, or the model's refusal when there is no text. Null: neither came. */
  readonly content: string | null
  readonly reasoning?: string
  readonly tool_calls?: readonly ToolCall[]
  readonly finish_reason: string | null
}

interface CallDraft {
  id: string
  name: string
  readonly args: FlatText
}

interface Said {
  readonly piece: string
  readonly into: FlatText
}

const above7Bits = /[\x80-\xff]/
/** What JSON does not take as it stands: an escape, or a character that needs one. */
const escaped = /[^ -[\]-\xff]/

export class Assembly {
  readonly #content = new FlatText()
  readonly #reasoning = new FlatText()
  readonly #refusal = new FlatText()
  readonly #calls: CallDraft[] = []
  /** The backend's index → the call to which the next piece of this index belongs. */
  readonly #open = new Map<number, CallDraft>()
  #finishReason: string | null = null
  /** Nearly every chunk equals the one before, except for a text, which goes to `#usual`. */
  readonly #pattern = new Pattern()
  #usual: FlatText | undefined

  /** Continues from a `snapshot`; any other text gives an empty assembly. */
  static from(snapshot: string): Assembly {
    const assembly = new Assembly()
    assembly.#restore(parse(snapshot))
    return assembly
  }

  /** Takes one data value as latin1, a char a byte. To read a chunk takes 1 µs, to know it again 0.1. */
  add(data: string): void {
    const text = this.#usual && this.#pattern.textOf(data)
    if (this.#usual && text !== undefined && !escaped.test(text)) this.#usual.add(decoded(text))
    else this.#read(data)
  }

  #read(data: string): void {
    this.#usual = undefined
    const choices = field(parse(decoded(data)), 'choices')
    if (!Array.isArray(choices)) return
    for (const choice of choices) {
      if ((field(choice, 'index') ?? 0) !== 0) continue
      const said = this.#addDelta(field(choice, 'delta'))
      const reason = field(choice, 'finish_reason')
      const isFinish = typeof reason === 'string' && reason !== ''
      if (isFinish) this.#finishReason = reason
      else if (said && choices.length === 1) this.#learn(data, said)
    }
  }

  #learn(data: string, { piece, into }: Said): void {
    // Where no character is escaped, a text that stands in one place alone stands where it was said; one that was not in
    // UTF-8 stands nowhere.
    if (data.includes('\\') || piece.includes('\ufffd')) return
    const quoted = `"${above7Bits.test(data) ? latin1(piece) : piece}"`
    const start = data.indexOf(quoted)
    if (start < 0 || data.indexOf(quoted, start + 1) >= 0) return
    this.#pattern.remember(data, start + 1, start + quoted.length - 1)
    this.#usual = into
  }

  result(): Assembled {
    const content = this.#content.toString() || this.#refusal.toString()
    const reasoning = this.#reasoning.toString()
    const tool_calls = this.#toolCalls()
    return {
      content: content === '' ? null : content,
      ...(reasoning !== '' && { reasoning }),
      ...(tool_calls.length > 0 && { tool_calls }),
      finish_reason: this.#finishReason,
    }
  }

  /** JSON text. */
  snapshot(): string {
    const open = [...this.#open].map(([index, call]) => [index, this.#calls.indexOf(call)])
    return JSON.stringify({
      content: this.#content.toString(),
      reasoning: this.#reasoning.toString(),
      refusal: this.#refusal.toString(),
      calls: this.#calls.map(({ id, name, args }) => ({ id, name, args: args.toString() })),
      open,
      finish: this.#finishReason,
    })
  }

  /** Returns what it said, if that is one text and nothing else. */
  #addDelta(delta: unknown): Said | undefined {
    const content = textOf(field(delta, 'content'))
    // Some servers send the same under both names.
    const reasoning = textOf(field(delta, 'reasoning_content') ?? field(delta, 'reasoning'))
    const refusal = textOf(field(delta, 'refusal'))
    this.#content.add(content)
    this.#reasoning.add(reasoning)
    this.#refusal.add(refusal)
    const calls = field(delta, 'tool_calls')
    if (Array.isArray(calls)) for (const call of calls) this.#addCall(call)
    const piece = content || reasoning || refusal
    const isAll = piece.length === content.length + reasoning.length + refusal.length
    if (piece === '' || !isAll || Array.isArray(calls)) return undefined
    return { piece, into: content ? this.#content : reasoning ? this.#reasoning : this.#refusal }
  }

  #addCall(piece: unknown): void {
    const id = textOf(field(piece, 'id'))
    const call = this.#callOf(field(piece, 'index'), id)
    if (!call) return
    call.id ||= id
    const called = field(piece, 'function')
    const name = textOf(field(called, 'name'))
    // Some servers repeat the name with each piece.
    if (name !== call.name) call.name += name
    add(call.args, field(called, 'arguments'))
  }

  /** Some servers send no index, or index 0 with every call: there, a different id means a different call. */
  #callOf(index: unknown, id: string): CallDraft | undefined {
    const isIndex = typeof index === 'number' && index >= 0
    const open = isIndex ? this.#open.get(index) : this.#calls.at(-1)
    const isOther = open === undefined || (id !== '' && open.id !== '' && id !== open.id)
    const call = isOther ? this.#newCall() : open
    if (call && isIndex) this.#open.set(index, call)
    return call
  }

  #newCall(): CallDraft | undefined {
    if (this.#calls.length >= maxToolCalls) return undefined
    const call = { id: '', name: '', args: new FlatText() }
    this.#calls.push(call)
    return call
  }

  /** A call without a name can't be answered. */
  #toolCalls(): ToolCall[] {
    return this.#calls.flatMap(({ id, name, args }, i) =>
      name === ''
        ? []
        : {
            id: id || `call_${i}`,
            type: 'function' as const,
            function: { name, arguments: args.toString() },
          },
    )
  }

  #restore(kept: unknown): void {
    add(this.#content, field(kept, 'content'))
    add(this.#reasoning, field(kept, 'reasoning'))
    add(this.#refusal, field(kept, 'refusal'))
    for (const call of listOf(field(kept, 'calls'))) {
      const restored = this.#newCall()
      if (!restored) break
      restored.id = textOf(field(call, 'id'))
      restored.name = textOf(field(call, 'name'))
      add(restored.args, field(call, 'args'))
    }
    for (const pair of listOf(field(kept, 'open'))) {
      const [index, position] = listOf(pair)
      const call = typeof position === 'number' ? this.#calls[position] : undefined
      if (call && typeof index === 'number') this.#open.set(index, call)
    }
    this.#finishReason = textOf(field(kept, 'finish')) || null
  }
}

export interface FinalStatus {
  readonly status: MessageStatus
  readonly error?: GatewayError | undefined
}

interface HowEnded extends FinalStatus {
  readonly said: Assembly
  /** Balance tokens. */
  readonly cost: number
  readonly usage?: UsedTokens | undefined
}

interface UsedTokens extends TokenCounts {
  readonly estimated: boolean
}

export function ended(draft: StoredMessage, how: HowEnded): StoredMessage {
  const { said, status, error, cost, usage } = how
  const { hold: _, ...row } = draft
  return {
    ...row,
    ...said.result(),
    status,
    cost,
    usage: usage ? { ...toUsage(usage), estimated: usage.estimated } : null,
    error: error && status !== 'cancelled' ? toError(error) : null,
    completed_at: Math.floor(Date.now() / 1000),
  }
}

/** Cost and usage, as the settlement noted them. */
export function usedBy(facts: Omit<Facts, 'flushes'>): Pick<HowEnded, 'cost' | 'usage'> {
  const { tokens = noTokens, estimated = false, cost = 0, basis } = facts
  const isNone = basis === undefined || basis === 'none'
  return { cost, usage: isNone ? undefined : { ...tokens, estimated } }
}

export function statusOf(ending: Ending): FinalStatus {
  if (ending.kind === 'complete' || ending.kind === 'length') return { status: 'completed' }
  if (ending.kind === 'relayed-error') {
    return { status: 'failed', error: new GatewayError('upstream_error', { source: 'backend' }) }
  }
  if (ending.kind === 'left') return { status: 'cancelled' }
  return { status: statusAfter(ending.error), error: ending.error }
}

/** For an answer that had begun before the error. */
export function statusAfter({ code }: GatewayError): MessageStatus {
  if (code === 'message_cancelled') return 'cancelled'
  return code === 'upstream_incomplete' || code === 'server_draining' ? 'incomplete' : 'failed'
}

function toError({ message, type, param, code }: GatewayError): StoredMessage['error'] {
  return { message, type, param: param ?? null, code }
}

function add(text: FlatText, piece: unknown): void {
  if (typeof piece === 'string') text.add(piece)
}

/** Latin1, a char a byte, as the text that it is in UTF-8. */
function decoded(data: string): string {
  return above7Bits.test(data) ? Buffer.from(data, 'latin1').toString() : data
}

function parse(text: string): unknown {
  return text.charCodeAt(0) === doneBracket ? undefined : parsed(text)
}

/** First character of `[DONE]`, which is no JSON: this check saves an exception. */
const doneBracket = 0x5b

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
