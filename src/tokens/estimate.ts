// Estimates how many prompt tokens a request may cost, before it is sent, from the bytes of its body and a few facts.
// All bytes count, except those of images, sound and token ids, which are counted as what they are. The estimate is
// high on purpose, because what is held and not used goes back. Looks at the bytes, because parsed values hide how they
// were written.

import type { JsonScan, Member } from '../http/json/scan.ts'
import { field } from '../http/json/field.ts'
import { JsonTokens } from '../http/json/tokens.ts'
import type { Span } from '../http/json/tokens.ts'
import { addressedPrice, findMedia } from './media.ts'
import type { Media } from './media.ts'

/** A body as http read it. */
export interface PromptBody {
  readonly body: Buffer
  /** How many https addresses of media are in it, wherever they stand. */
  readonly addresses: number
  /** Members that may hold media, on its endpoint. */
  readonly media: readonly string[]
  /**
   * The member whose texts the endpoint reads one by one, each together with all other texts of the body; undefined for
   * an endpoint that generates.
   */
  readonly items?: string | undefined
  readonly scan: Pick<JsonScan, 'members' | 'value'>
}

export interface PromptPrices {
  /** The model's `bytes_per_token`. */
  readonly bytesPerToken: number
  /** The model's `image_tokens`. */
  readonly imageTokens: number
}

/** All that has to be known of the values in a body, so that the values need not be kept. */
export interface PromptFacts {
  readonly media: readonly Media[]
  /** The cost of all media at https addresses. */
  readonly addressed: { readonly tokens: number; readonly most: number }
  readonly messages: number
  /** Parts of the contents of messages. */
  readonly parts: number
  /** Token ids in place of text, and their bytes. */
  readonly ids: number
  readonly idBytes: number
  /** How many texts a backend reads, each together with all of `repeated`, such as the query of a rerank; else 1. */
  readonly documents: number
  /** Where the repeated texts lie, without their media: the cost of that media is multiplied already. */
  readonly repeated: readonly Span[]
}

export interface PromptEstimate {
  readonly facts: PromptFacts
  readonly tokens: number
  /** A backend that reports more is not believed. */
  readonly most: number
}

export const messageTokens = 8
/** What a backend's own template and instructions may add to a prompt. */
const templateTokens = 4096
/** What a template may add to each further document: rerankers have templates of a hundred tokens. */
const documentTemplateTokens = 256
/** No vocabulary has ids of more digits: longer integers count as text. */
const maxIdDigits = 7
/** This many values of a list are looked at; the rest of the list is estimated by its bytes. */
const lookedAt = 200_000

export function estimatePrompt(prompt: PromptBody, prices: PromptPrices): PromptEstimate {
  const { bytesPerToken } = prices
  const facts = readPrompt(prompt, prices)
  const { media, addressed, messages, ids, idBytes, documents, repeated } = facts
  const bytes = prompt.body.length - bytesOf(media)
  const again = (documents - 1) * bytesOf(repeated)
  const frames = (messages + documents - 1) * messageTokens
  return {
    facts,
    tokens:
      Math.ceil(Math.max(0, bytes - idBytes + again) / bytesPerToken) +
      frames +
      media.reduce((sum, { tokens }) => sum + tokens, 0) +
      addressed.tokens +
      ids,
    most:
      bytes +
      again +
      2 * frames +
      media.reduce((sum, { most }) => sum + most, 0) +
      addressed.most +
      (documents - 1) * documentTemplateTokens +
      templateTokens,
  }
}

const bytesOf = (spans: readonly Span[]): number =>
  spans.reduce((sum, { start, end }) => sum + end - start, 0)

/** The parameters that a backend reads again with each document of a rerank, or each input of an embedding. */
const repeatedNames = ['query', 'instruct', 'instruction', 'prompt_name'] as const

/** Those parameters, and the endpoint's own fields besides its items: the query of a rerank. */
function repeatedIn({ scan, media, items }: PromptBody): readonly Member[] {
  const own = items === undefined ? [] : media.filter((name) => name !== items)
  return [...new Set([...repeatedNames, ...own])].flatMap((name) => scan.members.get(name) ?? [])
}

function readPrompt(prompt: PromptBody, prices: PromptPrices): PromptFacts {
  const { body, scan, addresses } = prompt
  const { members } = scan
  const messages = listOf(scan.value('messages'))
  const repeated = repeatedIn(prompt)
  const items = repeated.length > 0 && prompt.items !== undefined && scan.value(prompt.items)
  const documents = scan.value('documents') ?? items
  // Below `content`, vLLM reads each part as a document.
  const counts = [documents, field(documents, 'content')].map((list) => listOf(list).length)
  const times = Math.max(1, ...counts)
  const partsOf = (message: unknown) => listOf(field(message, 'content')).length
  const isRepeated = ({ start }: Span) =>
    repeated.some(({ valueStart, valueEnd }) => start >= valueStart && start < valueEnd)
  const media = mediaIn(prompt, prices).map((one) =>
    isRepeated(one) ? { ...one, tokens: times * one.tokens, most: times * one.most } : one,
  )
  const lists = [members.get('prompt'), members.get('input')].map((member) => idsIn(body, member))
  const one = addressedPrice(prices.imageTokens)
  return {
    media,
    addressed: { tokens: addresses * one.tokens, most: addresses * one.most },
    messages: messages.length,
    parts: messages.reduce<number>((sum, message) => sum + partsOf(message), 0),
    ids: lists.reduce((sum, { count }) => sum + count, 0),
    idBytes: lists.reduce((sum, { bytes }) => sum + bytes, 0),
    documents: times,
    repeated: repeated.flatMap(({ valueStart, valueEnd }) =>
      around({ start: valueStart, end: valueEnd }, media),
    ),
  }
}

function mediaIn({ body, scan, media }: PromptBody, prices: PromptPrices): readonly Media[] {
  // A backend reads the fields that `rank_fields` names as text.
  if (scan.members.has('rank_fields')) return []
  return media.flatMap((name) => {
    const member = scan.members.get(name)
    const isMessages = name === 'messages'
    const value = scan.value(name)
    if (!member || !(isMessages ? listOf(value).some(hasParts) : hasObjects(value))) return []
    return findMedia(body, { from: member.valueStart, to: member.valueEnd, isMessages, ...prices })
  })
}

/** The parts of a span that are not media. */
export function around({ start, end }: Span, media: readonly Media[]): readonly Span[] {
  const spans: Span[] = []
  let from = start
  for (const one of media) {
    if (one.start < from || one.end > end) continue
    spans.push({ start: from, end: one.start })
    from = one.end
  }
  return [...spans, { start: from, end }]
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

const hasParts = (message: unknown): boolean => Array.isArray(field(message, 'content'))

const hasObjects = (value: unknown): boolean =>
  Array.isArray(value) ? value.some(isObject) : isObject(value)

const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null

/** How many outputs one body asks for: each prompt of a list, `n` or `best_of` times. */
export function countChoices(body: { prompt?: unknown; n?: unknown; best_of?: unknown }): number {
  const { prompt } = body
  const isList = Array.isArray(prompt) && prompt.length > 0 && !isTokenId(prompt[0])
  const prompts = isList ? prompt.length : 1
  return prompts * Math.max(1, positive(body.n), positive(body.best_of))
}

const positive = (value: unknown): number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : 1

const isTokenId = (value: unknown): boolean =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0

/** Lists of token ids, or lists of such lists, as embeddings and completions take them. */
function idsIn(body: Buffer, member: Member | undefined): { count: number; bytes: number } {
  if (!member || body[member.valueStart] !== openBracket) return { count: 0, bytes: 0 }
  const tokens = new JsonTokens(body, { from: member.valueStart, to: member.valueEnd })
  let count = 0
  let bytes = 0
  for (let kind = tokens.next(); kind !== 'end'; kind = tokens.next()) {
    if (tokens.count > lookedAt) {
      // An id and its comma take two bytes at least.
      const rest = member.valueEnd - tokens.start
      return { count: count + Math.ceil(rest / 2), bytes: bytes + rest }
    }
    const { start, end } = tokens
    if (kind !== 'number' || tokens.depth > 2 || !isId(body, start, end)) continue
    count++
    bytes += end - start + 1
  }
  return { count, bytes }
}

const openBracket = 0x5b

/** Only digits make an id: a number written `1e5` counts by its bytes, like text. */
function isId(body: Buffer, start: number, end: number): boolean {
  if (end - start > maxIdDigits) return false
  for (let i = start; i < end; i++) {
    const c = body[i] ?? 0
    if (c < 0x30 || c > 0x39) return false
  }
  return true
}
