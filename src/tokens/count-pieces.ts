// Counts the tokens of JSON text in a body: all of a short text, samples of a long one. Samples lie at random, so that
// nobody can know what will be counted, and denser where more tokens can hide; a margin is added for what they may have
// missed.

import { randomInt } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Span } from '../http/json/tokens.ts'
import { countTokens } from './count.ts'

/** Longer texts are sampled. The tokenizer takes 0.05 s for a text of this length, 0.3 s at the worst. */
export const countedBytes = 128 * 1024

/** How much of a text is counted, and how. */
export interface Effort {
  /** Longer texts are sampled. */
  readonly wholeBytes: number
  readonly samples: number
  readonly sampleBytes: number
  /** This many standard errors are added to what samples say. */
  readonly errors: number
}

/** For a charge: nobody may hide tokens. */
export const thorough: Effort = {
  wholeBytes: countedBytes,
  samples: 192,
  sampleBytes: 1024,
  errors: 3,
}
/**
 * For a checkpoint: about 2 ms. Too low as often as too high, with a standard deviation of 2 % (3 % with samples half
 * as long).
 */
export const quick: Effort = { wholeBytes: 8192, samples: 16, sampleBytes: 512, errors: 0 }

/** This much of the samples is counted in one turn of the event loop. */
const turnBytes = 1024
/** One token can hold dozens of one of these in a row, but at most 8 of any other character. */
const cheapInRuns = new Uint8Array(256)
for (const char of ' \n\t=-*#_.~/') cheapInRuns[char.charCodeAt(0)] = 1
const weightInRun = 1 / 32

export interface PromptPiece extends Span {
  /** The JSON around its messages and their parts is not counted: a template has its own. */
  readonly isMessages?: boolean
}

export async function countPieces(
  body: Buffer,
  pieces: readonly PromptPiece[],
  effort = thorough,
): Promise<number> {
  const bytes = pieces.reduce((sum, { start, end }) => sum + end - start, 0)
  if (bytes > effort.wholeBytes) return sampled({ body, pieces, textOf: plainText }, effort)
  const texts = pieces.map((piece) =>
    plainText(body.toString('utf8', piece.start, piece.end), piece),
  )
  return countTokens(texts.join('\n'))
}

/** Counts a text that is not JSON. */
export function countText(text: string): Promise<number> {
  if (text.length <= countedBytes) return countTokens(text)
  const body = Buffer.from(text)
  const pieces = [{ start: 0, end: body.length }]
  return sampled({ body, pieces, textOf: (block) => block }, thorough)
}

interface Sampled {
  readonly body: Buffer
  readonly pieces: readonly PromptPiece[]
  textOf(block: string, piece: PromptPiece): string
}

/**
 * Blocks are drawn at random, in proportion to their weights, one from each equal part of all weights. A weight is close
 * to the most tokens that its block can have. So tokens ÷ weight is a number from 0 to 1, and a few draws are enough to
 * know its mean; and a part that can have many tokens is likely to be drawn, even if it has few bytes. A thorough count
 * adds three standard errors, and three draws' worth of tokens for parts that no draw may have met.
 */
async function sampled({ body, pieces, textOf }: Sampled, effort: Effort): Promise<number> {
  const { samples, sampleBytes, errors } = effort
  const blocks = pieces.flatMap((piece) => blocksOf(piece, sampleBytes))
  const ends = await weigh(body, blocks)
  const total = ends.at(-1) ?? 0
  let sum = 0
  let squares = 0
  for (let i = 0; i < samples; i++) {
    const index = indexOf(ends, ((i + randomInt(2 ** 40) / 2 ** 40) / samples) * total)
    const block: PromptPiece = blocks[index] ?? { start: 0, end: 0 }
    const weight = (ends[index] ?? 0) - (ends[index - 1] ?? 0) || 1
    const ratio = (await countTokens(textOf(wholeText(body, block), block))) / weight
    sum += ratio
    squares += ratio * ratio
    if (((i + 1) * sampleBytes) % turnBytes === 0) await nextTurn()
  }
  const mean = sum / samples
  const error = Math.sqrt(Math.max(0, squares / samples - mean * mean) / samples)
  const unmet = (errors / samples) * Math.max(0, 1 - mean)
  return Math.ceil(total * (mean + errors * error + unmet))
}

function blocksOf(piece: PromptPiece, sampleBytes: number): readonly PromptPiece[] {
  const count = Math.ceil((piece.end - piece.start) / sampleBytes)
  return Array.from({ length: count }, (_, i) => {
    const start = piece.start + i * sampleBytes
    return { ...piece, start, end: Math.min(piece.end, start + sampleBytes) }
  })
}

/** For each block, the sum of the weights up to and including it. */
async function weigh(body: Buffer, blocks: readonly Span[]): Promise<Float64Array> {
  const ends = new Float64Array(blocks.length)
  let sum = 0
  for (const [index, block] of blocks.entries()) {
    sum += weightOf(body, block)
    ends[index] = sum
    // A megabyte takes 2 ms.
    if (index % 1024 === 1023) await nextTurn()
  }
  return ends
}

function weightOf(body: Buffer, { start, end }: Span): number {
  let inRuns = 0
  for (let i = start + 1; i < end; i++) {
    const c = body[i] ?? 0
    if (c === body[i - 1] && cheapInRuns[c] === 1) inRuns++
  }
  return end - start - inRuns + inRuns * weightInRun
}

/** The index of the first end that is greater than `at`. */
function indexOf(ends: Float64Array, at: number): number {
  let low = 0
  let high = ends.length - 1
  while (low < high) {
    const middle = (low + high) >> 1
    if ((ends[middle] ?? 0) > at) high = middle
    else low = middle + 1
  }
  return low
}

/** A character that a border cuts belongs to the block in which it begins. */
function wholeText(body: Buffer, { start, end }: Span): string {
  return body.toString('utf8', characterAt(body, start), characterAt(body, end))
}

function characterAt(body: Buffer, at: number): number {
  let i = at
  while (i < at + 3 && i < body.length && ((body[i] ?? 0) & 0xc0) === 0x80) i++
  return i
}

const escaped = /\\(u[0-9a-fA-F]{4}|[^u])/g
const messageHead = /\{\s*"role"\s*:\s*"(\w{1,16})"\s*,\s*"content"\s*:\s*"/g
const partHead = /\{\s*"type"\s*:\s*"text"\s*,\s*"text"\s*:\s*"/g

/** How many places look like the beginning of a message, or of a part of one. */
export function headsIn(json: string): { readonly messages: number; readonly parts: number } {
  const count = (head: RegExp) => json.match(head)?.length ?? 0
  return { messages: count(messageHead), parts: count(partHead) }
}

/** The text as a chat template may write it: without the JSON around plain messages, and without escapes. */
function plainText(json: string, { isMessages }: PromptPiece): string {
  const said = isMessages ? json.replace(messageHead, '$1\n').replace(partHead, '') : json
  return said.includes('\\') ? said.replace(escaped, unescaped) : said
}

const controls: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f' }

function unescaped(_: string, what: string): string {
  return what.length === 5
    ? String.fromCharCode(Number.parseInt(what.slice(1), 16))
    : (controls[what] ?? what)
}
