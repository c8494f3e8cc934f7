// Counts the tokens of a text with a real tokenizer, for answers whose backend reported no usage. The tokenizer is
// loaded when first needed. No text blocks the event loop: a text is counted in small slices, one slice a turn.

import { setImmediate as nextTurn } from 'node:timers/promises'
import { loadTokenizer } from './tokenizer.ts'

/** The tokenizer is quadratic in a run of equal characters: 200,000 in one call take 10 s, 1,000 take 3 ms. */
const sliceChars = 1000

let loading: ReturnType<typeof loadTokenizer> | undefined
/** The queue of texts that have more than one slice. They take turns: many of them make no turn longer. */
let line: Promise<void> = Promise.resolve()

/** An estimate for models with another vocabulary; exact up to a token a slice for those with o200k_base. */
export async function countTokens(text: string): Promise<number> {
  if (text === '') return 0
  const count = await (loading ??= load())
  let tokens = 0
  for (let from = 0; from < text.length;) {
    const to = sliceEnd(text, from)
    tokens += count(text.slice(from, to))
    from = to
    if (from < text.length) await (line = line.then(() => nextTurn()))
  }
  return tokens
}

/** A load that failed is tried again: a process may be short of file descriptors for a moment. */
async function load(): ReturnType<typeof loadTokenizer> {
  try {
    return await loadTokenizer()
  } catch (error) {
    loading = undefined
    throw error
  }
}

/** Ends the slice before a space when one is near, so that no word is cut; never inside a surrogate pair. */
function sliceEnd(text: string, from: number): number {
  const most = from + sliceChars
  if (most >= text.length) return text.length
  const space = text.lastIndexOf(' ', most)
  if (space > most - 100) return space
  const code = text.charCodeAt(most)
  return code >= 0xdc00 && code <= 0xdfff ? most - 1 : most
}
