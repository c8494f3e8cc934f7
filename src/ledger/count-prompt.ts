// Counts a prompt for a charge that no backend reported: all of the body, keys too, by the tokenizer; images, sound and
// token ids as the estimate counts them. Asked after the answer, never before.

import { countPieces } from './count-pieces.ts'
import type { Piece } from './count-pieces.ts'
import type { Place, PromptFacts } from './estimate.ts'

/** What most chat templates write around a message, besides its role. */
const messageTokens = 4
/** What a reranker writes between query and document. */
const documentTokens = 4

/** A body that was looked at. Its values may be gone. */
export interface KnownPrompt {
  readonly body: Buffer
  readonly members: ReadonlyMap<string, Place>
  readonly facts: PromptFacts
}

export async function countPrompt(prompt: KnownPrompt): Promise<number> {
  const { media, addressed, messages, ids, documents, repeated } = prompt.facts
  const mediaTokens = media.reduce((sum, { tokens }) => sum + tokens, addressed.tokens)
  const counted = await countPieces(prompt.body, piecesOf(prompt))
  const isRepeated = documents > 1 && repeated.length > 0
  const places = repeated.map(({ valueStart, valueEnd }): Piece => [valueStart, valueEnd])
  const again = isRepeated ? await countPieces(prompt.body, places) : 0
  const frames = messages * messageTokens + (documents - 1) * (again + documentTokens)
  return Math.max(1, counted + ids + mediaTokens + frames)
}

/** Written by the gateway itself. All other texts, lists and objects are read by some backend; numbers and words aren't. */
const own: ReadonlySet<string> = new Set(['model', 'stream_options'])
/** Whose names no backend shows to a model. */
const nameless: ReadonlySet<string> = new Set(['messages', 'prompt', 'input', 'query', 'documents'])

function piecesOf({ body, members, facts }: KnownPrompt): readonly Piece[] {
  const pieces: Piece[] = []
  for (const [name, place] of members) {
    if (own.has(name) || isPlain(body, place)) continue
    const isIds = facts.ids > 0 && (name === 'prompt' || name === 'input')
    if (isIds && !hasText(body, place)) continue
    pieces.push(...around(nameless.has(name) ? place.valueStart : place.keyStart, place, facts))
  }
  return pieces
}

/** A number or a word. */
function isPlain(body: Buffer, { valueStart }: Place): boolean {
  const c = body[valueStart]
  return c !== 0x22 && c !== 0x5b && c !== 0x7b
}

function hasText(body: Buffer, { valueStart, valueEnd }: Place): boolean {
  const quote = body.indexOf(0x22, valueStart)
  return quote >= 0 && quote < valueEnd
}

/** Without the media in it. */
function around(start: number, { valueEnd }: Place, { media }: PromptFacts): readonly Piece[] {
  const pieces: Piece[] = []
  let from = start
  for (const one of media) {
    if (one.start < from || one.end > valueEnd) continue
    pieces.push([from, one.start])
    from = one.end
  }
  return [...pieces, [from, valueEnd]]
}
