// Finds what counts in a chunk or an answer: every text and every list of token ids below `choices[]`, finishes, and
// where its usage lies. One pass over its bytes; parses nothing, so it reads broken or cut data as far as that goes.

import { setImmediate as nextTurn } from 'node:timers/promises'
import { JsonTokens } from '../http/json/tokens.ts'

export interface Chunk {
  /** How many texts were generated. */
  texts: number
  /** Where the last text lies in the data. */
  textStart: number
  textEnd: number
  /** Token ids, or entries of logprobs, whichever are more: they repeat the texts, or come without texts. */
  ids: number
  /** Sound as base64. */
  audioBytes: number
  /** A tool is called, or sound begins, with or without data. */
  isCall: boolean
  /** The choices in the data, each with its index where the backend sends one. */
  readonly choices: Choice[]
  hasChoices: boolean
  /** Where its top-level usage lies; undefined for none. */
  usage: readonly [start: number, end: number] | undefined
}

interface Choice {
  index: number | undefined
  isFinished: boolean
  /** The word that it finished with. */
  reason: string | undefined
}

/** What a bracket holds. */
type BracketScope =
  /** Nothing that counts. */
  | 'other'
  | 'top'
  | 'usage'
  | 'choices'
  | 'choice'
  /** Known objects of a choice: the protocol defines their keys, the model wrote their values. */
  | 'part'
  | 'audio'
  /** Unknown objects, such as arguments that are an object: the model wrote their keys, too. */
  | 'free'
  | 'logprobs'
  /** Entries of logprobs. */
  | 'entries'

const words = (text: string): ReadonlySet<string> => new Set(text.split(' '))

/** Keys below a choice whose values the model did not generate, or whose values repeat what it generated. */
const unread = words(
  'annotations content_filter_offsets content_filter_result content_filter_results created expires_at format id ' +
    'index matched_stop model native_finish_reason object prompt_logprobs prompt_token_ids role service_tier ' +
    'signature status stop_reason text_offset tool_call_id type usage',
)

const parts = words(
  'content custom delta function function_call message reasoning reasoning_content reasoning_details tool_calls',
)

/** No request asks for more choices; further ones, which a backend made up, are not kept. */
const maxChoices = 1024

/** `data` is latin1, a char a byte. Calls `found` with each text that was generated, still JSON-escaped. */
export function readChunk(data: string, found: (text: string) => void = () => undefined): Chunk {
  const reading = new Reading(data, found)
  reading.readOn(Infinity)
  return reading.chunk
}

/** This many JSON tokens are read in 2 ms. */
const tokensATurn = 50_000

/** The same for megabytes, in pieces, one a turn of the event loop: 30 MiB at once take 200 ms. */
export async function readInTurns(data: string, found: (text: string) => void): Promise<Chunk> {
  const reading = new Reading(data, found)
  while (!reading.readOn(tokensATurn)) await nextTurn()
  return reading.chunk
}

class Reading {
  readonly chunk: Chunk = {
    texts: 0,
    textStart: 0,
    textEnd: 0,
    ids: 0,
    audioBytes: 0,
    isCall: false,
    choices: [],
    hasChoices: false,
    usage: undefined,
  }
  readonly #data: string
  readonly #tokens: JsonTokens
  readonly #found: (text: string) => void
  /** The scopes of the open brackets, innermost last; and whether each bracket is a list. */
  readonly #scopes: BracketScope[] = []
  readonly #lists: boolean[] = []
  #scope: BracketScope = 'other'
  #isList = false
  #key = ''
  #numbers = 0
  #entries = 0
  #usageStart = 0
  #choice: Choice | undefined
  /** The text before this one, since some servers send one text under two names. */
  #lastText = ''
  #lastKey = ''

  constructor(data: string, found: (text: string) => void) {
    this.#data = data
    this.#found = found
    this.#tokens = new JsonTokens(Buffer.from(data, 'latin1'))
  }

  /** Reads at most so many tokens. Returns true at the end of the data. */
  readOn(most: number): boolean {
    const tokens = this.#tokens
    for (const last = tokens.count + most; tokens.count < last;) {
      const kind = tokens.next()
      if (kind === 'end') {
        this.chunk.ids = Math.max(this.#numbers, this.#entries)
        return true
      }
      if (kind === 'open') this.#open()
      else if (kind === 'close') this.#close()
      else if (kind === 'key') this.#readKey()
      else if (kind === 'string') this.#readText()
      else this.#readPlain(kind === 'number')
    }
    return false
  }

  #open(): void {
    const { depth, isList, start } = this.#tokens
    this.#scopes.push(this.#scope)
    this.#lists.push(this.#isList)
    const scope = depth === 1 ? (isList ? 'other' : 'top') : this.#scopeBelow(isList)
    if (scope === 'usage' && this.#scope === 'top') this.#usageStart = start
    if (scope === 'choices') this.chunk.hasChoices = true
    if (scope === 'choice') this.#begin()
    if (!isList && isCall(this.#key) && scope !== 'other') this.chunk.isCall = true
    this.#scope = scope
    this.#isList = isList
  }

  #scopeBelow(isList: boolean): BracketScope {
    const key = this.#key
    switch (this.#scope) {
      case 'top':
        if (key === 'usage' && !isList) return 'usage'
        return key === 'choices' && isList ? 'choices' : 'other'
      case 'choices':
        return 'choice'
      case 'choice':
      case 'part':
      case 'audio':
        if (this.#isList) return this.#scope
        if (unread.has(key)) return 'other'
        if (key === 'logprobs') return 'logprobs'
        if (key === 'audio') return 'audio'
        return parts.has(key) ? 'part' : 'free'
      case 'logprobs':
        return isList && entryLists.has(key) ? 'entries' : 'other'
      case 'entries':
        this.#entries++
        return 'other'
      default:
        return this.#scope
    }
  }

  #begin(): void {
    this.#choice = { index: undefined, isFinished: false, reason: undefined }
    if (this.chunk.choices.length < maxChoices) this.chunk.choices.push(this.#choice)
    this.#lastText = ''
  }

  #close(): void {
    const outer = this.#scopes.pop() ?? 'other'
    if (this.#scope === 'usage' && outer === 'top') {
      this.chunk.usage = [this.#usageStart, this.#tokens.end]
    }
    this.#scope = outer
    this.#isList = this.#lists.pop() ?? false
  }

  #readKey(): void {
    const { start, end } = this.#tokens
    this.#key = this.#data.slice(start, end)
    if (this.#scope === 'free') this.#add(start, end)
  }

  #readText(): void {
    const { start, end } = this.#tokens
    switch (this.#scope) {
      case 'choice':
        if (this.#key === 'finish_reason') return this.#finish(this.#data.slice(start, end))
        if (this.#isRead()) this.#add(start, end)
        return
      case 'audio':
        if (this.#key === 'data') this.chunk.audioBytes += end - start
        else if (this.#isRead()) this.#add(start, end)
        return
      case 'part':
        if (this.#isRead()) this.#add(start, end)
        return
      case 'free':
        return this.#add(start, end)
      case 'entries':
        this.#entries++
        return
      default:
    }
  }

  /** Items of a list have no key of their own. */
  #isRead(): boolean {
    return this.#isList || !unread.has(this.#key)
  }

  #readPlain(isNumber: boolean): void {
    const { start, end } = this.#tokens
    const scope = this.#scope
    if (scope === 'free' && !this.#isList) return this.#add(start, end)
    if (scope === 'choice' && this.#key === 'finish_reason') {
      if (this.#data.slice(start, end) !== 'null') this.#finish(undefined)
    } else if (scope === 'choice' && this.#key === 'index' && isNumber && this.#choice) {
      this.#choice.index = Number(this.#data.slice(start, end))
    } else if (isNumber && this.#isList && (scope === 'free' || scope === 'part')) this.#numbers++
  }

  #finish(reason: string | undefined): void {
    // An empty reason says that the choice goes on, as null does.
    if (!this.#choice || reason === '') return
    this.#choice.isFinished = true
    if (reason !== undefined && reason.length <= 64) this.#choice.reason = reason
  }

  #add(start: number, end: number): void {
    if (start === end) return
    const text = this.#data.slice(start, end)
    // Some servers send one thought twice, as `reasoning` and as `reasoning_content`.
    if (text === this.#lastText && this.#key !== this.#lastKey && this.#scope !== 'free') return
    const { chunk } = this
    chunk.texts++
    chunk.textStart = start
    chunk.textEnd = end
    this.#found(text)
    this.#lastText = text
    this.#lastKey = this.#key
  }
}

const isCall = (key: string): boolean =>
  key === 'tool_calls' || key === 'function_call' || key === 'audio'

const entryLists: ReadonlySet<string> = new Set(['content', 'refusal', 'tokens'])
