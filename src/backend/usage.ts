// The meter of one answer: is it finished, did it fail, what did it use. Fed each event of a stream, or a whole JSON
// answer; finds what it needs by byte search, and parses only the few events that carry usage (a JSON.parse for each event
// costs 4 µs). Believes no backend blindly: counts that cannot be are as good as none. Prices nothing.

import { Generated, findGenerated } from './generated.ts'
import type { Count } from './generated.ts'
import { field } from '../json-field.ts'

export interface MeterOptions {
  readonly completeWhen: 'finish_reason' | 'done'
  /** How many choices were asked for; 0 where the endpoint generates nothing. */
  readonly choices: number
  readonly count: Count
  /** What all choices together may generate; a backend that runs past it is found out. 0: no bound. */
  readonly maxTokens?: number
}

/** What an event is to the stream. `content` is text, reasoning, a tool call or a finish; `usage` is a chunk with nothing else in it. */
export type EventKind = 'content' | 'usage' | 'done' | 'error' | 'other'

/** What a backend said it used; a field it did not say, or said nonsense for, is undefined. */
export interface Reported {
  readonly prompt: number | undefined
  readonly completion: number | undefined
  readonly cached: number
}

export interface Used {
  readonly prompt: number
  readonly cached: number
  readonly completion: number
  readonly estimated: boolean
  readonly basis: 'reported' | 'counted'
}

/** No answer has so many tokens: a larger report is nonsense, not a price. */
const mostTokens = 1_000_000_000
/** Up to here JSON is parsed: 1 MiB takes 1.5 ms. */
const parsedChars = 1 << 20

const doneMark = '[DONE]'
const leadingError = /^\s*\{\s*"error"\s*:\s*(?!\s|null\b)/
/** Behind other keys it may be a tool's argument: that is looked at closer. */
const anyError = /"error"\s*:\s*[{"]/
const finishKey = /"finish_reason"\s*:\s*(?!\s|null\b)/g
const finishWord = /"finish_reason"\s*:\s*"([^"\\]{0,64})"/
const toolCall = /"(?:tool_calls"\s*:\s*\[\s*\{|(?:function_call|audio)"\s*:\s*\{)/
const usageKey = /"usage"\s*:\s*\{/
const noChoices = /"choices"\s*:\s*\[\s*\]/

export class Meter {
  readonly #options: MeterOptions
  readonly #generated: Generated
  readonly #seen = new Set<number>()
  readonly #ended = new Set<number>()
  #isWhole = false
  #finishes = 0
  #finishReason: string | undefined
  #contentEvents = 0
  #sawContent = false
  #sawDone = false
  #sawError = false
  #reported: Reported | undefined
  #overran = false
  #nextCheck: number

  constructor(options: MeterOptions) {
    this.#options = options
    this.#generated = new Generated(options.count)
    this.#nextCheck = options.maxTokens ? runawayAt(options.maxTokens) : Infinity
  }

  /** Called for every event's data, latin1. */
  event(data: string): EventKind {
    if (data.length < 16 && data.trim() === doneMark) {
      this.#sawDone = true
      return 'done'
    }
    if (data.includes('"error"') && isError(data)) {
      this.#sawError = true
      return 'error'
    }
    const hasUsage = data.includes('"usage"') && usageKey.test(data)
    if (hasUsage) this.#readUsage(usageIn(data))
    const content = this.#readContent(data)
    const finish = this.#readFinish(data)
    if (content) this.#contentEvents++
    if (content || finish) {
      this.#sawContent = true
      return 'content'
    }
    return hasUsage && noChoices.test(data) ? 'usage' : 'other'
  }

  /** A whole answer. False where it is no JSON, or an error. */
  json(body: Buffer): boolean {
    const data = body.toString('latin1')
    const isLarge = data.length > parsedChars
    const value = isLarge ? undefined : parsed(data)
    if (isLarge ? leadingError.test(data) : !isAnswer(value)) {
      this.#sawError = true
      return false
    }
    this.#isWhole = true
    this.#readUsage(isLarge ? usageIn(data) : field(value, 'usage'))
    const finish = this.#readFinish(data)
    // Text is looked for only where it may have to be counted.
    const isReported = this.#options.choices === 1 && (this.#reported?.completion ?? 0) > 0
    const content = isReported || this.#readContent(data)
    if (content) this.#contentEvents++
    this.#sawContent = content || finish
    return true
  }

  /** Every choice that was asked for has ended: nothing but usage and [DONE] can follow. */
  get finished(): boolean {
    if (this.#sawError) return false
    if (this.#isWhole) return true
    const { completeWhen, choices } = this.#options
    if (completeWhen === 'done') return this.#sawDone
    return choices > 1 ? this.#ended.size >= choices : this.#finishes > 0
  }

  /** After an end that looked clean: did each choice that came end by itself? Some backends ignore `n`. */
  get complete(): boolean {
    if (this.finished) return true
    if (this.#sawError || this.#options.completeWhen === 'done') return false
    return this.#ended.size > 0 && [...this.#seen].every((index) => this.#ended.has(index))
  }

  get finishReason(): string | undefined {
    return this.#finishReason
  }

  /** A role alone, or an empty text, is no content: fail-over stays possible. */
  get sawContent(): boolean {
    return this.#sawContent
  }

  get sawDone(): boolean {
    return this.#sawDone
  }

  get sawError(): boolean {
    return this.#sawError
  }

  get contentEvents(): number {
    return this.#contentEvents
  }

  get reported(): Reported | undefined {
    return this.#reported
  }

  /** Cheap, for checkpoints: one token an event, or four characters a token, whichever is more. */
  get roughTokens(): number {
    return Math.max(this.#contentEvents, Math.ceil(this.#generated.chars / 4))
  }

  /** The backend generated more than twice its bound and 64 tokens, by the tokenizer. To be stopped. */
  get overran(): boolean {
    return this.#overran
  }

  /** What is to be charged. `promptTokens` is the estimate, for a backend that does not say. A promise where text has to be counted. */
  used({ promptTokens }: { promptTokens: number }): Used | Promise<Used> {
    const { choices } = this.#options
    // With several choices some backends report one of them; in a stream that was cut the report may be an early one.
    const isFinal = choices === 1 && this.#completion !== undefined && this.complete
    if (choices === 0 || isFinal) return this.#usedWith(0, promptTokens)
    return this.#generated.tokens().then((counted) => this.#usedWith(counted, promptTokens))
  }

  /** Some servers put zeros where they have not counted: a prompt has tokens, and so has content. */
  get #completion(): number | undefined {
    const said = this.#reported?.completion
    return this.#contentEvents > 0 ? said || undefined : said
  }

  #usedWith(counted: number, promptTokens: number): Used {
    const { choices } = this.#options
    const cached = this.#reported?.cached ?? 0
    const prompt = this.#reported?.prompt || undefined
    const completion = this.#completion
    // Another tokenizer than the model's: it may not say more than could be generated where the backend knows.
    const bound = completion === undefined ? Infinity : this.#options.maxTokens || Infinity
    const most = Math.max(completion ?? 0, Math.min(counted, bound))
    const isUnknown = prompt === undefined || (completion === undefined && choices > 0)
    const estimated = isUnknown || most > (completion ?? 0)
    return {
      prompt: prompt ?? promptTokens,
      cached: prompt === undefined ? 0 : Math.min(cached, prompt),
      completion: most,
      estimated,
      basis: estimated ? 'counted' : 'reported',
    }
  }

  #readContent(data: string): boolean {
    if (this.#options.choices === 0) return false
    const found = findGenerated(data, this.#keep)
    if (this.roughTokens > this.#nextCheck) this.#checkBound()
    return found || toolCall.test(data)
  }

  readonly #keep = (piece: string): void => this.#generated.add(piece)

  /** One character an event is rough's blind spot: a suspicion is checked with the tokenizer, and again a quarter later. */
  #checkBound(): void {
    this.#nextCheck = Math.ceil(this.roughTokens * 1.25)
    void this.#generated.tokens().then((tokens) => {
      if (tokens > runawayAt(this.#options.maxTokens ?? Infinity)) this.#overran = true
    })
  }

  #readFinish(data: string): boolean {
    const several = this.#options.choices > 1
    if (!several && !data.includes('"finish_reason"')) return false
    finishKey.lastIndex = 0
    const found = finishKey.test(data)
    if (found) {
      this.#finishes++
      this.#finishReason = finishWord.exec(data)?.[1] ?? this.#finishReason
    }
    if (several) this.#readChoices(data)
    return found
  }

  /** Which choices came and which have ended: told apart by their index, which byte search cannot do. */
  #readChoices(data: string): void {
    const choices = field(parsed(data), 'choices')
    for (const choice of Array.isArray(choices) ? choices : []) {
      const index = field(choice, 'index')
      if (typeof index !== 'number') continue
      this.#seen.add(index)
      const reason = field(choice, 'finish_reason')
      if (reason !== null && reason !== undefined) this.#ended.add(index)
    }
  }

  #readUsage(usage: unknown): void {
    const prompt = tokensIn(usage, 'prompt_tokens')
    const completion = tokensIn(usage, 'completion_tokens')
    const total = tokensIn(usage, 'total_tokens')
    // Embeddings and rerank have a prompt alone, and some say only the total.
    const alone = prompt ?? (field(usage, 'completion_tokens') === undefined ? total : undefined)
    if (alone === undefined && completion === undefined) return
    const cached = tokensIn(field(usage, 'prompt_tokens_details'), 'cached_tokens') ?? 0
    this.#reported = { prompt: alone, completion, cached }
  }
}

const runawayAt = (maxTokens: number): number => 2 * maxTokens + 64

/** The top-level usage; of a very large answer (embeddings) only its own braces are parsed. */
function usageIn(data: string): unknown {
  if (data.length <= parsedChars) return field(parsed(data), 'usage')
  const start = data.lastIndexOf('"usage"')
  const open = data.indexOf('{', start)
  for (let end = data.indexOf('}', open); end >= 0 && end - open < 4096;) {
    const usage = parsed(data.slice(open, end + 1))
    if (usage !== undefined) return usage
    end = data.indexOf('}', end + 1)
  }
  return undefined
}

function tokensIn(value: unknown, name: string): number | undefined {
  const tokens = field(value, name)
  const isCount = typeof tokens === 'number' && Number.isInteger(tokens)
  return isCount && tokens >= 0 && tokens <= mostTokens ? tokens : undefined
}

function isError(data: string): boolean {
  if (leadingError.test(data)) return true
  return anyError.test(data) && (field(parsed(data), 'error') ?? null) !== null
}

function isAnswer(value: unknown): boolean {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  return isObject && (field(value, 'error') ?? null) === null
}

/** Latin1 is fine: what is read are numbers and ASCII. */
function parsed(data: string): unknown {
  try {
    return JSON.parse(data) as unknown
  } catch {
    return undefined
  }
}
