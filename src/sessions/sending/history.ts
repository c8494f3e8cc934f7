// Chooses what a backend gets to see of a session: the instructions, the newest whole turns
// that fit into the model's context window less the output's budget, and the new turns. A
// turn is the questions before an answer and all that follows up to the next question. An
// empty answer drops out with its questions, a tool call without a result drops out alone.
//
// A message with files is a draft with references until prepare.ts fills in the contents. Here, words already replace a
// file for which the request has no room, or which the model does not take.
//
// Goes from the newest message to the oldest, so that the caller reads no more of a session than is needed:
//
//     user  assistant(calls a, b)  tool(a)  assistant  user  assistant()      ← oldest … newest →
//     └──────────── one turn: b drops out ───────────┘ └─ both drop out ─┘

import { hostOf, isListed } from '../../chat/address.ts'
import type { Model } from '../../config/config.ts'
import { GatewayError } from '../../errors.ts'
import { inlineBytes, standIn, tokensOf } from '../../files/file-reference.ts'
import type { FileReference } from '../../files/file-reference.ts'
import { invalid } from '../../http/refusals.ts'
import { messageTokens } from '../../tokens/estimate.ts'
import { dataUrlPrice } from '../../tokens/media.ts'
import { filesOf, fill } from './attachments.ts'
import type { Draft } from './attachments.ts'
import { mapParts, partsOf } from '../message.ts'
import type { MessageContent, NewMessage, StoredMessage, ToolCall } from '../message.ts'

export interface HistoryOptions {
  /** The new turns: they always go to the backend, even when they alone are too long. */
  readonly fresh: readonly NewMessage[]
  readonly instructions: string | null
  readonly model: Pick<
    Model,
    'accepts' | 'bytesPerToken' | 'imageTokens' | 'contextWindow' | 'remoteMedia'
  >
  /** Tokens for the answer; the prompt keeps at least half of the window. */
  readonly outputTokens: number
  /** JSON text by name, as the backend gets it. Needed because tools and schemas take room in the window too. */
  readonly parameters: ReadonlyMap<string, string>
  /** Most bytes of files and images in the request. Those of the new turns must fit; of the others, the newest that fit are sent. */
  readonly inlineBytes: number
  /** True when there is a store to read files from. */
  readonly takesFiles: boolean
}

export interface History {
  /** Chat Completions messages, oldest first. */
  readonly messages: readonly Draft[]
  /** An estimate, made as in tokens/estimate.ts. */
  readonly promptTokens: number
}

/** The most files of earlier turns: each costs a read of the store. */
const maxOlderFiles = 100

interface Turn {
  /** Newest first. */
  readonly drafts: Draft[]
  tokens: number
  /** True for the turn that has the new messages. */
  readonly isFresh: boolean
  /** True once a question of this turn was seen: the next older message that is no question belongs to another turn. */
  hasQuestion: boolean
}

interface Result {
  readonly message: NewMessage
  /** Its index among the sent messages; undefined when it was stored before. */
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
  /** True once the new messages were seen: all older ones are stored. */
  #isStored = false
  /** Tool results whose call has not been seen yet; newest first. */
  #results: Result[] = []
  /** True after an empty answer was seen: the questions before it drop out. */
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
    // Without a question, the new messages continue an earlier turn: this turn stays open, and is never dropped.
    this.#closeIfAsked()
  }

  /** False when no older message fits any more. */
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

  /** Corrects the room by the newest reported usage: else a session with many tokens a byte is refused every time. */
  #learn({ guessed, usage }: StoredMessage): void {
    if (this.#hasLearned || !guessed || !usage || usage.estimated) return
    this.#hasLearned = true
    const { contextWindow, bytesPerToken } = this.#model
    // In a short prompt, the tokens that a backend adds to every prompt would distort the ratio.
    if (usage.prompt_tokens < contextWindow / 4) return
    // A token has at least one byte, so the ratio cannot exceed `bytesPerToken`.
    const ratio = Math.max(1, Math.min(usage.prompt_tokens / guessed, bytesPerToken))
    this.#left = this.#room / ratio - this.#used
  }

  #see(message: NewMessage | StoredMessage, at: number | undefined): void {
    if (message.role === 'assistant') return this.#seeAnswer(message)
    if (this.#isDropping) return
    if (message.role === 'tool') {
      this.#closeIfAsked()
      this.#results.push({ message, at })
      return
    }
    this.#leaveResults()
    this.#push(message)
    this.#turn.hasQuestion = true
  }

  #seeAnswer(message: NewMessage | StoredMessage): void {
    const isRunning = 'status' in message && message.status === 'in_progress'
    const { calls, results } = this.#match(isRunning ? [] : message.tool_calls)
    const hasText = !isRunning && message.content !== null && message.content.length > 0
    const isEmpty = !hasText && calls.length === 0
    this.#isDropping = isEmpty
    if (isEmpty) return
    this.#leaveResults()
    this.#closeIfAsked()
    for (const result of results) this.#push(result.message)
    this.#push(message, calls)
  }

  /** The calls that have a result, and the first result of each, newest first. */
  #match(all: readonly ToolCall[] = []) {
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

  /** Drops results without a call, since backends refuse them. Throws when one of these results is new. */
  #leaveResults(): void {
    const fresh = this.#results.find(({ at }) => at !== undefined)
    this.#results = []
    if (fresh) {
      throw invalid(
        `messages[${fresh.at}].tool_call_id`,
        'names no tool call that waits for a result',
      )
    }
  }

  #push(message: NewMessage, calls: readonly ToolCall[] = []): void {
    const { role, tool_call_id, name } = message
    const content = this.#visible(message.content)
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

  /** Puts words in place of files and images that this model does not take, or for which the request has no room. */
  #visible(content: MessageContent): MessageContent {
    return mapParts(content, (part) => {
      if (part.type === 'text') return part
      if (part.type === 'file') return this.#fits(part.file) ? part : standIn(part.file)
      const { url } = part.image_url
      const isTaken = this.#model.accepts.includes('image') && this.#mayFetch(url)
      const isSeen = isTaken && this.#takesRoom(url.length)
      return isSeen ? part : standIn({ kind: 'image', filename: '' })
    })
  }

  /** The session's earlier model may have allowed an address that this model does not allow. */
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

  #closeIfAsked(): void {
    if (this.#turn.hasQuestion) this.#close()
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

const newTurn = (isFresh: boolean): Turn => ({ drafts: [], tokens: 0, isFresh, hasQuestion: false })

/** The request body for a backend; parameters stay byte for byte as the client wrote them. */
export function composeBody(request: {
  readonly model: string
  readonly messages: readonly string[]
  readonly parameters: ReadonlyMap<string, string>
}): Buffer {
  const { model, messages, parameters } = request
  const members = [...parameters].map(([name, text]) => `,${JSON.stringify(name)}:${text}`)
  const head = `{"model":${JSON.stringify(model)},"stream":true,"messages":[`
  const text = `${head}${messages.join(',')}]${members.join('')}}`
  // Memory of its own: the body is kept as long as the answer takes, and a part of Buffer's pool would keep 64 KiB.
  const body = Buffer.allocUnsafeSlow(Buffer.byteLength(text))
  body.write(text)
  return body
}
