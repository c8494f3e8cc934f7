// The meter of one answer: is it finished, did it fail, what did it use. Gets each event of a stream, or a whole JSON
// answer. Most events differ from the one before only in their text, which pattern.ts finds; the others are read (chunk.ts),
// and only their usage is parsed. Believes no backend blindly: an impossible count is ignored. Knows no prices.

import { parsed } from '../http/json/field.ts'
import { readChunk, readInTurns } from './chunk.ts'
import type { Chunk } from './chunk.ts'
import { Generated } from './generated.ts'
import type { Alarm, Count } from './generated.ts'
import { Pattern } from './pattern.ts'
import { finishReasonIn, isError, readAnswer, readReport, usageIn, usedOf } from './report.ts'
import type { Reported, Used, Wasted } from './report.ts'

export interface MeterOptions {
  readonly completeWhen: 'finish_reason' | 'done'
  /** How many choices were asked for; 0 where the endpoint generates nothing. */
  readonly choices: number
  /** How many answers are generated for each choice (`best_of`): only one is sent. Default: 1. */
  readonly tries?: number
  readonly count: Count
  /** What each choice may generate; a backend that generates far more is detected. 0: no bound. */
  readonly outputPerChoice?: number
  /** At most this many tokens of the prompt come again, in all answers together (`echo`). */
  readonly echoed?: number
  /** The backend was asked to report with every chunk what it has used so far. */
  readonly isContinuous?: boolean
  readonly alarm?: Alarm | undefined
}

/** What an event is to the stream. `content` is text, reasoning, a tool call or a finish; `usage` is a chunk with nothing else in it. */
export type EventKind = 'content' | 'usage' | 'done' | 'error' | 'other'

/** More is not believed, and a backend that generates more is stopped. */
export const runawayAt = (maxTokens: number): number => 2 * maxTokens + 64

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
  /** How many events had content when the last report came. */
  #reportedAt = 0
  /** Of an answer that nobody gets (`wasted`): the report came after all that was generated. */
  #isReportedLast = false
  #overran = false
  readonly #maxTokens: number
  #nextCheck: number
  /** The size of the answer divided by the size of the part that was counted. */
  #scale = 1
  readonly #pattern = new Pattern()

  constructor(options: MeterOptions) {
    this.#options = options
    this.#generated = new Generated(options.count)
    const most = (options.outputPerChoice ?? 0) * options.choices
    this.#maxTokens = most > 0 ? most : Infinity
    this.#nextCheck = runawayAt(this.#maxTokens) + (options.echoed ?? 0)
  }

  /** Called for every event's data, latin1. */
  event(data: string): EventKind {
    if (data.length < 16 && data.trim() === '[DONE]') {
      this.#sawDone = true
      return 'done'
    }
    if (this.#takeLikeBefore(data)) return 'content'
    if (data.includes('"error"') && isError(data)) {
      this.#sawError = true
      return 'error'
    }
    const chunk = this.#read(data)
    this.#pattern.learn(data, chunk)
    const isContent = this.#takeContent(chunk)
    const isReport = chunk.usage && this.#readUsage(parsed(data.slice(...chunk.usage)))
    if (isReport) this.#reportedAt = this.#contentEvents
    if (isContent) return 'content'
    return chunk.usage && chunk.hasChoices && chunk.choices.length === 0 ? 'usage' : 'other'
  }

  /** Reads a whole answer, latin1. Resolves with false when it is no JSON object, or an error. */
  async json(data: string): Promise<boolean> {
    const answer = readAnswer(data)
    if (!answer) {
      this.#sawError = true
      return false
    }
    this.#isWhole = true
    this.#readUsage(answer.usage)
    // Text is looked for only where it may have to be counted.
    const isReported = this.#options.choices === 1 && (this.#reported?.completion ?? 0) > 0
    if (this.#options.choices > 0 && !isReported) {
      const chunk = await readInTurns(data, this.#keep)
      this.#generated.addOthers(chunk)
      this.#takeContent(chunk)
      return true
    }
    this.#finishReason = finishReasonIn(data)
    this.#sawContent = isReported
    if (isReported) this.#contentEvents++
    return true
  }

  /** Reads what is there of an answer or an event that nobody gets, because it is too large, cut off, or no JSON. The tokens of the head stand for the whole, in proportion to the bytes. */
  wasted({ head, tail, bytes, isAnswer = false }: Wasted): void {
    const chunk = this.#read(head)
    if (this.#takeContent(chunk)) this.#scale = Math.max(1, bytes / Math.max(1, head.length))
    this.#isReportedLast = this.#readUsage(usageIn(tail))
    if (!this.#isReportedLast && chunk.usage) this.#readUsage(parsed(head.slice(...chunk.usage)))
    const { prompt, completion } = this.#reported ?? {}
    // Some backends report the prompt before they generate.
    if (isAnswer || (this.#options.choices > 0 ? completion : prompt)) this.#sawContent = true
  }

  /** Every choice that was asked for has ended: nothing but usage and [DONE] can follow. */
  get finished(): boolean {
    if (this.#sawError) return false
    if (this.#isWhole) return true
    const { completeWhen, choices } = this.#options
    if (completeWhen === 'done') return this.#sawDone
    return choices > 1 ? this.#ended.size >= choices : this.#finishes > 0
  }

  /** Whether each choice that came has finished, after an end that looked clean. Choices that never came are not missed, because some backends ignore `n`. */
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

  /** Cheap: one token an event, or four characters a token, whichever is more. */
  get roughTokens(): number {
    return Math.max(this.#contentEvents, this.#generated.roughTokens)
  }

  /** Choices that were asked for and have not ended, by their index. */
  get unfinished(): readonly number[] {
    const { choices } = this.#options
    if (choices === 1) return this.#finishes > 0 ? [] : [0]
    return Array.from({ length: choices }, (_, i) => i).filter((i) => !this.#ended.has(i))
  }

  /** The tokenizer counts more than `runawayAt` of the bound, plus `echoed`: the backend must be stopped. */
  get overran(): boolean {
    return this.#overran
  }

  /** What is to be charged. `promptTokens` is the estimate, for a backend that reports no prompt. Returns a promise when text has to be counted. */
  used({ promptTokens }: { promptTokens: number }): Used | Promise<Used> {
    if (this.#isSaid) return this.#usedWith(0, promptTokens)
    return this.#generated.tokens().then((sent) => this.#usedWith(this.#all(sent), promptTokens))
  }

  /** Counts a sample of what came since the last call, for `soFar`. Never rejects. */
  gauge(): Promise<void> {
    return this.#generated.gauge()
  }

  /** The usage so far, for a checkpoint: as reported if that covers all, else by samples; within the bound. */
  soFar({ promptTokens }: { promptTokens: number }): Used {
    const counted = this.#isSaid ? 0 : this.#all(this.#generated.gaugedTokens)
    const used = this.#usedWith(counted, promptTokens)
    return { ...used, completion: Math.min(used.completion, this.#maxTokens) }
  }

  /** Nothing has to be counted. With several choices, some backends report only one of them. */
  get #isSaid(): boolean {
    const { choices } = this.#options
    return choices === 0 || (choices === 1 && this.#isReported)
  }

  /** All tokens that were generated, from those that were counted in what was sent. An event counts as one token at least, unless there are more than two events for each counted token: then the server sends single letters, and only the count holds. */
  #all(counted: number): number {
    const { tries = 1 } = this.#options
    const times = this.#isReported ? 1 : tries
    const isByToken = this.#contentEvents <= 2 * counted
    const sent = isByToken ? Math.max(counted, this.#contentEvents) : counted
    return Math.ceil(sent * this.#scale * times)
  }

  /** Whether the last report covers all that came. After a cut, it may be an early one. */
  get #isReported(): boolean {
    if (this.#completion === undefined) return false
    if (this.#isWhole || this.#isReportedLast) return true
    const mayBeLast = this.complete || this.#options.isContinuous === true
    return mayBeLast && this.#reportedAt === this.#contentEvents
  }

  /** Some servers report 0 when they have not counted. Content has tokens, so 0 then counts as no report. */
  get #completion(): number | undefined {
    const said = this.#reported?.completion
    const isUncounted = said === 0 && this.#contentEvents > 0
    return isUncounted ? undefined : said
  }

  #usedWith(counted: number, promptTokens: number): Used {
    const { choices } = this.#options
    const said = { cached: 0, ...this.#reported, completion: this.#completion }
    return usedOf(said, { counted, promptTokens, bound: this.#maxTokens, choices })
  }

  /** Takes a chunk that equals the one before, except for its one text: nearly every chunk. False for any other. */
  #takeLikeBefore(data: string): boolean {
    const text = this.#pattern.textOf(data)
    if (text === undefined || text === '') return false
    this.#generated.add(text)
    this.#contentEvents++
    this.#check()
    return true
  }

  #read(data: string): Chunk {
    if (this.#options.choices === 0)
      return { ...readChunk(data), texts: 0, ids: 0, audioBytes: 0, isCall: false }
    const chunk = readChunk(data, this.#keep)
    this.#generated.addOthers(chunk)
    return chunk
  }

  /** Counts a chunk's content. True when the chunk has text, a call or a finish. */
  #takeContent(chunk: Chunk): boolean {
    const { texts, ids, audioBytes, isCall } = chunk
    const content = texts > 0 || ids > 0 || audioBytes > 0 || isCall
    if (content) this.#contentEvents++
    this.#check()
    const finish = this.#readChoices(chunk)
    if (content || finish) this.#sawContent = true
    return content || finish
  }

  #check(): void {
    const rough = this.roughTokens
    if (rough > this.#nextCheck) this.#checkBound()
    const { alarm } = this.#options
    if (alarm && rough >= alarm.at) alarm.reached()
  }

  readonly #keep = (piece: string): void => this.#generated.add(piece)

  /** With one character an event, `roughTokens` is far too high: so count exactly, and again a quarter later. */
  #checkBound(): void {
    this.#nextCheck = Math.ceil(this.roughTokens * 1.25)
    const bound = runawayAt(this.#maxTokens) + (this.#options.echoed ?? 0)
    void this.#generated.tokens().then((tokens) => (this.#overran ||= tokens > bound))
  }

  /** Notes which choices came, and which have ended. True when one has ended. */
  #readChoices({ choices }: Chunk): boolean {
    let isFinish = false
    for (const { index, isFinished, reason } of choices) {
      if (index !== undefined) this.#seen.add(index)
      if (!isFinished) continue
      isFinish = true
      this.#finishes++
      this.#finishReason = reason ?? this.#finishReason
      if (index !== undefined) this.#ended.add(index)
    }
    return isFinish
  }

  /** True when the usage has a possible count. */
  #readUsage(usage: unknown): boolean {
    const reported = readReport(usage, this.#options.choices > 0)
    this.#reported = reported ?? this.#reported
    return reported !== undefined
  }
}
