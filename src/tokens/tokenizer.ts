// Counts the tokens of o200k_base in a text. Pattern and ranks are those of gpt-tokenizer. The package's own tables
// (200,000 strings, twice) take 60 MB more, and 0.4 s in one piece; the tables here take 4 MB, and load in slices.
// Splits no long texts: count.ts does.

import { readFile } from 'node:fs/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { plain } from '../plain.ts'

/** Rank of the token made of these bytes, -1 where there is none. */
type RankOf = (bytes: Uint8Array, from: number, to: number) => number

export async function loadTokenizer(): Promise<(text: string) => number> {
  if (plain.has('token-tables')) return loadPackage()
  const { O200K_TOKEN_SPLIT_REGEX: pieces } = await import('gpt-tokenizer/encodingParams/constants')
  const url = new URL(import.meta.resolve('gpt-tokenizer/data/o200k_base.tiktoken'))
  const rankOf = indexOf(await readRanks(await readFile(url)))
  const encoder = new TextEncoder()
  return (text) => {
    let tokens = 0
    for (const [piece] of text.matchAll(pieces)) {
      const bytes = encoder.encode(piece)
      tokens += rankOf(bytes, 0, bytes.length) < 0 ? mergedCount(bytes, rankOf) : 1
    }
    return tokens
  }
}

/** The package's own counting. */
async function loadPackage(): Promise<(text: string) => number> {
  const { countTokens } = await import('gpt-tokenizer/encoding/o200k_base')
  // Text that looks like a control token counts like any other text.
  const options = { disallowedSpecial: new Set<string>() }
  return (text) => countTokens(text, options)
}

interface Ranks {
  /** The bytes of all tokens, in the order of their ranks. */
  readonly bytes: Uint8Array
  /** Where the token of a rank ends; it begins where the one before ends. */
  readonly ends: Uint32Array
}

/** Lines of base64, a space and the rank, counted up from 0. */
async function readRanks(file: Buffer): Promise<Ranks> {
  const bytes = Buffer.allocUnsafeSlow(file.length)
  const ends: number[] = []
  let end = 0
  for (let from = 0; from < file.length; from = file.indexOf('\n', from) + 1 || file.length) {
    const space = file.indexOf(' ', from)
    end += bytes.write(file.toString('latin1', from, space), end, 'base64')
    ends.push(end)
    if (ends.length % 5000 === 0) await nextTurn()
  }
  return { bytes: Buffer.copyBytesFrom(bytes, 0, end), ends: Uint32Array.from(ends) }
}

/** A hash table with open addressing. About two thirds of it are empty, so that the search for a missing token ends soon. */
function indexOf({ bytes, ends }: Ranks): RankOf {
  const mask = 2 ** Math.ceil(Math.log2(ends.length * 2)) - 1
  const slots = new Int32Array(mask + 1).fill(-1)
  const rankStart = (rank: number) => (rank === 0 ? 0 : (ends[rank - 1] ?? 0))
  const isAt = (rank: number, text: Uint8Array, from: number, to: number) => {
    const start = rankStart(rank)
    if ((ends[rank] ?? 0) - start !== to - from) return false
    for (let i = from; i < to; i++) if (text[i] !== bytes[start + i - from]) return false
    return true
  }
  for (let rank = 0; rank < ends.length; rank++) {
    let slot = hash(bytes, rankStart(rank), ends[rank] ?? 0) & mask
    while (slots[slot] !== -1) slot = (slot + 1) & mask
    slots[slot] = rank
  }
  return (text, from, to) => {
    for (let slot = hash(text, from, to) & mask; ; slot = (slot + 1) & mask) {
      const rank = slots[slot] ?? -1
      if (rank === -1 || isAt(rank, text, from, to)) return rank
    }
  }
}

/** FNV-1a. */
function hash(bytes: Uint8Array, from: number, to: number): number {
  let sum = 0x811c9dc5
  for (let i = from; i < to; i++) sum = Math.imul(sum ^ (bytes[i] ?? 0), 0x01000193)
  return sum ^ (sum >>> 15)
}

/** Byte pair encoding: of all neighbouring parts that together make a token, the pair of the lowest rank is joined, until no pair makes a token. */
function mergedCount(bytes: Uint8Array, rankOf: RankOf): number {
  /** Where each part begins, and where the last one ends. */
  const starts = Array.from({ length: bytes.length + 1 }, (_, i) => i)
  /** The rank of each part joined with the next one. */
  const ranks = starts.slice(2).map((to, i) => rankOf(bytes, i, to))
  const rankAt = (i: number) => rankOf(bytes, starts[i] ?? 0, starts[i + 2] ?? 0)
  for (;;) {
    const best = lowest(ranks)
    if (best < 0) return starts.length - 1
    starts.splice(best + 1, 1)
    ranks.splice(best, 1)
    if (best < ranks.length) ranks[best] = rankAt(best)
    if (best > 0) ranks[best - 1] = rankAt(best - 1)
  }
}

/** The index of the first lowest rank that is not -1; -1 when there is none. */
function lowest(ranks: readonly number[]): number {
  let best = -1
  let least = Infinity
  for (let i = 0; i < ranks.length; i++) {
    const rank = ranks[i] ?? -1
    if (rank < 0 || rank >= least) continue
    best = i
    least = rank
  }
  return best
}
