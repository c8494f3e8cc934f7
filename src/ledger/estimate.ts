// How many prompt tokens a request may cost, guessed before it is sent: all of the body counts, but for images and audio,
// which are charged as such. Guesses high on purpose, since what is held and not used goes back. Reads what http parsed.

import { field } from '../json-field.ts'

/** The top-level values of the body that matter, as parsed; others count by their bytes alone. */
export interface PromptView {
  readonly messages?: unknown
  readonly prompt?: unknown
  readonly input?: unknown
}

export interface BodySize {
  readonly bodyBytes: number
  /** The model's `bytes_per_token`. */
  readonly bytesPerToken: number
}

export const messageTokens = 8
export const imageTokens = 1500
/** Of base64. Models take 10 tokens a second of sound, and a second is 2 KB and more. */
export const audioBytesPerToken = 200
/** No vocabulary is larger: such integers are text to us. */
const maxTokenId = 1_000_000

export function estimatePrompt(view: PromptView, { bodyBytes, bytesPerToken }: BodySize): number {
  const messages = Array.isArray(view.messages) ? view.messages : []
  const media = mediaOf(messages)
  const ids = idsOf([view.prompt, view.input])
  const textBytes = Math.max(0, bodyBytes - media.urlBytes - media.audioBytes - ids.bytes)
  return (
    Math.ceil(textBytes / bytesPerToken) +
    messages.length * messageTokens +
    media.images * imageTokens +
    Math.ceil(media.audioBytes / audioBytesPerToken) +
    ids.count
  )
}

/** How many outputs one body asks for: each prompt of a list, `n` or `best_of` times. */
export function countChoices(body: { prompt?: unknown; n?: unknown; best_of?: unknown }): number {
  const { prompt } = body
  const isList = Array.isArray(prompt) && prompt.length > 0 && !isTokenId(prompt[0])
  const prompts = isList ? prompt.length : 1
  return prompts * Math.max(1, positive(body.n), positive(body.best_of))
}

const positive = (value: unknown): number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : 1

interface Media {
  readonly images: number
  /** Of data URLs. */
  readonly urlBytes: number
  readonly audioBytes: number
}

/** Only where Chat Completions has them, `messages[].content[]`: anywhere else such a key is text like all text. */
function mediaOf(messages: readonly unknown[]): Media {
  let images = 0
  let urlBytes = 0
  let audioBytes = 0
  for (const message of messages) {
    const content = field(message, 'content')
    for (const part of Array.isArray(content) ? content : []) {
      const type = field(part, 'type')
      if (type === 'image_url') {
        images++
        const image = field(part, 'image_url')
        const url = typeof image === 'string' ? image : field(image, 'url')
        if (typeof url === 'string' && /^data:/i.test(url)) urlBytes += url.length
      } else if (type === 'input_audio') {
        const data = field(field(part, 'input_audio'), 'data')
        if (typeof data === 'string') audioBytes += data.length
      }
    }
  }
  return { images, urlBytes, audioBytes }
}

/** Lists of token ids, or lists of such lists, in the order in which embeddings and completions take them. */
function idsOf(values: readonly unknown[]): { count: number; bytes: number } {
  let count = 0
  let bytes = 0
  for (const value of values) {
    if (!Array.isArray(value)) continue
    for (const item of value) {
      for (const id of Array.isArray(item) ? item : [item]) {
        if (!isTokenId(id)) continue
        count++
        bytes += leastBytes(id) + 1
      }
    }
  }
  return { count, bytes }
}

const isTokenId = (value: unknown): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < maxTokenId

/** `100000` may stand there as `1e5`: to take six bytes off for three would give other text away free. */
function leastBytes(id: number): number {
  return id > 0 && id % 1000 === 0 ? 2 : String(id).length
}
