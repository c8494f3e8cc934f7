// What of a session a backend gets to see: the instructions, the newest whole turns that fit the model's context window
// less the output's budget, and what is said now. A turn is the questions up to an answer and all that follows up to the
// next question. Answers that say nothing drop out with what they answer, calls of tools without their results.
//
// Of files it has references: a message with files is a draft until somebody fills them in. Those for which there is no
// room, or no sense in the model, are words already.
//
// Goes from the newest message to the oldest, so nobody reads more of a session than is needed:
//
//     user  assistant(calls a, b)  tool(a)  assistant  user  assistant()      ← oldest … newest →
//     └──────────── one turn: b goes ────────────────┘ └─ both drop out ─┘

import { hostOf, isListed } from '../../chat/address.ts'
import type { Model } from '../../config/config.ts'
import { GatewayError } from '../../errors.ts'
import { inlineBytes, standIn, tokensOf } from '../../files/file-reference.ts'
import type { FileReference } from '../../files/file-reference.ts'
import { invalid } from '../../http/refusals.ts'
import { messageTokens } from '../../tokens/estimate.ts'
import { dataUrlPrice } from '../../tokens/media.ts'
import { composeBody, filesOf, fill } from './draft.ts'
import type { Draft } from './draft.ts'
import { mapParts, partsOf } from '../message.ts'
import type { MessageContent, NewMessage, StoredMessage, ToolCall } from '../message.ts'

export interface HistoryOptions {
  /** The new turns: they always go, even when they alone are too long. */
  readonly fresh: readonly NewMessage[]
  readonly instructions: string | null
  readonly model: Pick<
    Model,
    'accepts' | 'bytesPerToken' | 'imageTokens' | 'contextWindow' | 'remoteMedia'
  >
  /** What the answer may take; at least half of the window is left to the prompt. */
  readonly outputTokens: number
  /** JSON text by name, as they go to the backend: tools and schemas take their room too. */
  readonly parameters: ReadonlyMap<string, string>
  /** What all files and images together may have in the request. What is said now must fit, newer ones go before older. */
  readonly inlineBytes: number
  /** There is a store to read them from. */
  readonly takesFiles: boolean
}

export interface History {
  /** Chat Completions messages, oldest first. */
  readonly messages: readonly Draft[]
  /** Guessed as tokens/estimate.ts does. */
  readonly promptTokens: number
}

/** Of earlier turns: each is a read of the store. */
const maxOlderFiles = 100

interface Turn {
  /** Newest first. */
  readonly drafts: Draft[]
  tokens: number
  /** It has what is said now. */
  readonly isFresh: boolean
  /** Its questions were met; whatever is older and no question belongs to another turn. */
  isAsked: boolean
}

interface Result {
  readonly message: NewMessage
  /** Where it stands in what was sent; undefined: it is stored. */
  readonly at: number | undefined
}

export class HistoryBuilder {
  readonly #model: HistoryOptions['model']
  readonly #system: string | undefined
  /** Newest first. */
  readonly #chosen: Draft[] = []
  #used: number
  readonly #room: number
  #left: number
  #hasLearned = false
  #turn = newTurn(true)
  #isStored = false
  /** Results whose call has not been met yet; newest first. */
  #results: Result[] = []
  /** An answer without text was met: the questions before it drop out. */
  #isDropping = false
  #isFull = false
  readonly #takesFiles: boolean
  readonly #mostInline: number
  #inlineLeft: number
  #olderFiles = 0

  constructor(options: HistoryOptions) {
    const { fresh, instructions, model, outputTokens, parameters } = options
    this.#model = model
    this.#takesFiles = options.takesFiles
    this.#mostInline = this.#inlineLeft = options.inlineBytes
    this.#system = instructions
      ? JSON.stringify({ role: 'system', content: instructions })
      : undefined
    const others = composeBody({ model: '', messages: [], parameters }).length
    this.#used = others / model.bytesPerToken + (this.#system ? this.#tokensOf(this.#system) : 0)
    const reserve = Math.min(outputTokens, Math.floor(model.contextWindow / 2))
    this.#room = model.contextWindow - reserve
    this.#left = this.#room - this.#used
    for (let i = fresh.length - 1; i >= 0; i--) {
      const message = fresh[i]
      if (message) this.#see(message, i)
    }
    this.#isStored = true
    // Else these are results, or go on with what was said before: that turn is never dropped.
    if (this.#turn.isAsked) this.#close()
  }

  /** False: whatever is older does not fit. */
  get wantsMore(): boolean {
    return !this.#isFull
  }

  /** The next older message. */
  add(message: StoredMessage): void {
    if (this.#isFull) return
    this.#learn(message)
    this.#see(message, undefined)
  }

  /** Throws `invalid_parameter` for a result that no call waits for. */
  build(): History {
    this.#leaveResults()
    this.#close()
    const messages = this.#chosen.toReversed()
    if (this.#system) messages.unshift(this.#system)
    return { messages, promptTokens: Math.ceil(this.#used) }
  }

  /** From the newest answer whose backend has counted: else a session of many tokens a byte is refused again and again. */
  #learn({ guessed, usage }: StoredMessage): void {
    if (this.#hasLearned || !guessed || !usage || usage.estimated) return
    this.#hasLearned = true
    const { contextWindow, bytesPerToken } = this.#model
    // In short prompts, what a backend adds to each of them outweighs what was guessed.
    if (usage.prompt_tokens < contextWindow / 4) return
    // No token is less than a byte.
    const ratio = Math.max(1, Math.min(usage.prompt_tokens / guessed, bytesPerToken))
    this.#left = this.#room / ratio - this.#used
  }

  #see(message: NewMessage | StoredMessage, at: number | undefined): void {
    if (message.role === 'assistant') return this.#seeAnswer(message)
    if (this.#isDropping) return
    if (message.role === 'tool') {
      if (this.#turn.isAsked) this.#close()
      this.#results.push({ message, at })
      return
    }
    this.#leaveResults()
    this.#push(message)
    this.#turn.isAsked = true
  }

  #seeAnswer(message: NewMessage | StoredMessage): void {
    const isOver = !('status' in message) || message.status !== 'in_progress'
    const { calls, results } = this.#claim(isOver ? message.tool_calls : undefined)
    const says = isOver && message.content !== null && message.content.length > 0
    this.#isDropping = !says && calls.length === 0
    if (this.#isDropping) return
    this.#leaveResults()
    if (this.#turn.isAsked) this.#close()
    for (const result of results) this.#push(result.message)
    this.#push(message, calls)
  }

  /** The calls that have a result, and the first result of each, newest first. */
  #claim(all: readonly ToolCall[] = []) {
    const waiting = new Set(all.map(({ id }) => id))
    const results: Result[] = []
    const others: Result[] = []
    for (const result of this.#results.toReversed()) {
      const isWaitedFor = waiting.delete(result.message.tool_call_id ?? '')
      if (isWaitedFor) results.unshift(result)
      else others.unshift(result)
    }
    this.#results = others
    return { calls: all.filter(({ id }) => !waiting.has(id)), results }
  }

  /** Those whose call is not there: backends refuse them. */
  #leaveResults(): void {
    const fresh = this.#results.find(({ at }) => at !== undefined)
    this.#results = []
    if (fresh) {
      throw invalid(`messages[${fresh.at}].tool_call_id`, 'is of no call that waits for a result')
    }
  }

  #push(message: NewMessage, calls: readonly ToolCall[] = []): void {
    const { role, tool_call_id, name } = message
    const content = this.#seen(message.content)
    const shape = {
      role,
      content,
      ...(calls.length > 0 && { tool_calls: calls }),
      tool_call_id,
      name,
    }
    const hasFiles = filesOf(content).length > 0
    const draft = hasFiles ? { message: shape, content: partsOf(content) } : undefined
    const text = draft ? fill(draft, standIn) : JSON.stringify(shape)
    this.#turn.drafts.push(draft ?? text)
    this.#turn.tokens += this.#tokensOf(text, content)
    if (!this.#turn.isFresh && this.#turn.tokens > this.#left) this.#isFull = true
  }

  /** The session may have had another model before, one with eyes; and not all that it has goes into one request. */
  #seen(content: MessageContent): MessageContent {
    return mapParts(content, (part) => {
      if (part.type === 'text') return part
      if (part.type === 'file') return this.#fits(part.file) ? part : standIn(part.file)
      const { url } = part.image_url
      const isTaken = this.#model.accepts.includes('image') && this.#mayFetch(url)
      const isSeen = isTaken && this.#takesRoom(url.length)
      return isSeen ? part : standIn({ kind: 'image', filename: '' })
    })
  }

  /** What an address is to a model that the session had before, it need not be to this one. */
  #mayFetch(url: string): boolean {
    const host = hostOf(url)
    return host === undefined || isListed(host, this.#model.remoteMedia)
  }

  #fits(file: FileReference): boolean {
    if (!this.#takesFiles || !this.#model.accepts.includes(file.kind)) return false
    if (this.#isStored && ++this.#olderFiles > maxOlderFiles) return false
    return this.#takesRoom(inlineBytes(file))
  }

  #takesRoom(bytes: number): boolean {
    if (bytes <= this.#inlineLeft) {
      this.#inlineLeft -= bytes
      return true
    }
    if (this.#isStored) return false
    const message = `The files of a message take ${this.#mostInline} bytes at most, as base64. Send fewer or smaller ones.`
    throw new GatewayError('body_too_large', { message })
  }

  #tokensOf(text: string, content: MessageContent = null): number {
    const { bytesPerToken, imageTokens } = this.#model
    let bytes = Buffer.byteLength(text) + 1
    let others = 0
    for (const part of partsOf(content)) {
      if (part.type === 'text') continue
      if (part.type === 'file') {
        others += tokensOf(part.file, this.#model)
        continue
      }
      bytes -= part.image_url.url.length
      others += dataUrlPrice(part.image_url.url, imageTokens)
    }
    return bytes / bytesPerToken + messageTokens + others
  }

  #close(): void {
    if (this.#isFull) return
    const { drafts, tokens } = this.#turn
    for (const draft of drafts) this.#chosen.push(draft)
    this.#left -= tokens
    this.#used += tokens
    this.#turn = newTurn(!this.#isStored)
  }
}

const newTurn = (isFresh: boolean): Turn => ({ drafts: [], tokens: 0, isFresh, isAsked: false })
