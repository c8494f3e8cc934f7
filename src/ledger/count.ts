// Counts the tokens of a text with a real tokenizer, for answers whose backend reported no usage. The tokenizer is
// loaded when first needed (20 MB of ranks), and hostile text never holds the event loop: small slices, a turn between.

import { isUtf8 } from 'node:buffer'
import { readFile } from 'node:fs/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'

/** The tokenizer is quadratic in a run of equal characters: 200,000 in one call take 10 s, 1,000 take 3 ms. */
const sliceChars = 1000

type Count = (text: string) => number

let loading: Promise<Count> | undefined

/** An estimate for models with another vocabulary; exact up to a token a slice for those with o200k_base. */
export async function countTokens(text: string): Promise<number> {
  if (text === '') return 0
  const count = await (loading ??= load())
  let tokens = 0
  for (let from = 0; from < text.length;) {
    const to = sliceEnd(text, from)
    tokens += count(text.slice(from, to))
    from = to
    if (from < text.length) await nextTurn()
  }
  return tokens
}

async function load(): Promise<Count> {
  const { GptEncoding } = await import('gpt-tokenizer/GptEncoding')
  const ranks = await readRanks()
  const encoding = GptEncoding.getEncodingApi('o200k_base', () => ranks)
  // 100,000 by default, each as long as a hostile word: gigabytes.
  encoding.setMergeCacheSize(1000)
  // Text such as `<|endoftext|>` is text here; by default it throws.
  const options = { disallowedSpecial: new Set<string>() }
  return (text) => encoding.countTokens(text, options)
}

/** From the package's data: to import its ranks as a module takes 85 MB in place of 55, and 0.4 s in one piece. */
async function readRanks(): Promise<(string | number[])[]> {
  const url = new URL(import.meta.resolve('gpt-tokenizer/data/o200k_base.tiktoken'))
  const file = await readFile(url, 'latin1')
  const ranks: (string | number[])[] = []
  for (let from = 0; from < file.length;) {
    const space = file.indexOf(' ', from)
    const newline = file.indexOf('\n', space)
    const end = newline < 0 ? file.length : newline
    const bytes = Buffer.from(file.slice(from, space), 'base64')
    const rank = Number(file.slice(space + 1, end))
    // The package decodes as TextDecoder does, which takes a byte order mark away.
    const isText = isUtf8(bytes) && !bytes.subarray(0, 3).equals(byteOrderMark)
    ranks[rank] = isText ? bytes.toString() : [...bytes]
    from = end + 1
    if (rank % 5000 === 0) await nextTurn()
  }
  return ranks
}

const byteOrderMark = Buffer.from('\ufeff')

/** Before a space where one is near, so that no word is cut; never inside a surrogate pair. */
function sliceEnd(text: string, from: number): number {
  const most = from + sliceChars
  if (most >= text.length) return text.length
  const space = text.lastIndexOf(' ', most)
  if (space > most - 100) return space
  const code = text.charCodeAt(most)
  return code >= 0xdc00 && code <= 0xdfff ? most - 1 : most
}
