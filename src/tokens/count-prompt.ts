// Counts a prompt for a charge when the backend reported none, or for a checkpoint: all of the body, keys too, by the
// tokenizer; images, sound and token ids as the estimate counts them. Runs when the answer has begun, never before.

import type { Member } from '../http/json/scan.ts'
import { countPieces, countedBytes, headsIn, thorough } from './count-pieces.ts'
import type { PromptPiece } from './count-pieces.ts'
import { around } from './estimate.ts'
import type { PromptFacts } from './estimate.ts'

/** What most chat templates write around a message, besides its role. */
const messageTokens = 4
/** What a reranker writes between query and document. */
const documentTokens = 4

/** A body that was scanned. Its parsed values may be gone. */
export interface KnownPrompt {
  readonly body: Buffer
  readonly members: ReadonlyMap<string, Member>
  readonly facts: PromptFacts
}

export async function countPrompt(prompt: KnownPrompt, effort = thorough): Promise<number> {
  const { media, addressed, messages, ids, documents, repeated } = prompt.facts
  const mediaTokens = media.reduce((sum, { tokens }) => sum + tokens, addressed.tokens)
  const counted = await countPieces(prompt.body, textsOf(prompt), effort)
  const isRepeated = documents > 1 && repeated.length > 0
  const again = isRepeated ? await countPieces(prompt.body, repeated, effort) : 0
  const frames = messages * messageTokens + (documents - 1) * (again + documentTokens)
  return Math.max(1, counted + ids + mediaTokens + frames)
}

/** Fields that the gateway writes itself. Some backend reads every other text, list or object; none reads numbers and words. */
const own: ReadonlySet<string> = new Set(['model', 'stream_options'])
/** Fields whose names no backend shows to a model. */
const nameless: ReadonlySet<string> = new Set(['messages', 'prompt', 'input', 'query', 'documents'])

function textsOf({ body, members, facts }: KnownPrompt): readonly PromptPiece[] {
  const texts: PromptPiece[] = []
  for (const [name, member] of members) {
    if (own.has(name) || isPlain(body, member)) continue
    const isIds = facts.ids > 0 && (name === 'prompt' || name === 'input')
    if (isIds && !hasText(body, member)) continue
    const start = nameless.has(name) ? member.valueStart : member.keyStart
    const isMessages = name === 'messages' && hasOnlyMessages(body, member, facts)
    const spans = around({ start, end: member.valueEnd }, facts.media)
    texts.push(...spans.map((span) => ({ ...span, isMessages })))
  }
  return texts
}

/** Whether no other object looks like a message or a part: a template may show the arguments of a tool call as they are. */
function hasOnlyMessages(body: Buffer, member: Member, { messages, parts }: PromptFacts): boolean {
  const json = body.subarray(member.valueStart, member.valueEnd)
  if (!hasMore(json, '"role"', messages) && !hasMore(json, '"text"', 2 * parts)) return true
  // The words may also be a message's content or a tool's name. In a longer text, a closer look takes too long.
  if (json.length > countedBytes) return false
  const heads = headsIn(json.toString('latin1'))
  return heads.messages <= messages && heads.parts <= parts
}

/** Whether `word` occurs more than `most` times. */
function hasMore(json: Buffer, word: string, most: number): boolean {
  let count = 0
  for (let at = json.indexOf(word); at >= 0; at = json.indexOf(word, at + 1)) {
    if (++count > most) return true
  }
  return false
}

/** A number, true, false or null. */
function isPlain(body: Buffer, { valueStart }: Member): boolean {
  const c = body[valueStart]
  return c !== 0x22 && c !== 0x5b && c !== 0x7b
}

function hasText(body: Buffer, { valueStart, valueEnd }: Member): boolean {
  const quote = body.indexOf(0x22, valueStart)
  return quote >= 0 && quote < valueEnd
}
