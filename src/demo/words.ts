// What the demo model says, and how it counts: up to 12 characters of a word, with the space before them, are a token;
// so is a sign. Pure functions.

import { createHash } from 'node:crypto'
import { field } from '../http/json/field.ts'

/** How much of the question the answer repeats. */
const quotedChars = 200
/** Of an embedding. */
const dimensions = 64

/** An answer that repeats the last question, and says what to do next. */
export function demoAnswer(prompt: unknown): string {
  const question = lastText(prompt).replace(/\s+/g, ' ').trim().slice(0, quotedChars).toWellFormed()
  const heard = question === '' ? 'You said nothing' : `You said: "${question}"`
  return (
    `${heard}. I am the demo model: I have no knowledge, but every word of mine went through ` +
    'the same keys, limits, balance and stream that a real model would. ' +
    'To talk to one, put its URL under targets in gateway.yaml.'
  )
}

/** The pieces joined are the text again. */
export function pieces(text: string): string[] {
  return text.match(/\s*(?:[\p{L}\p{N}_']{1,12}|[^\s\p{L}\p{N}_'])|\s+$/gu) ?? []
}

/** A vector of unit length that depends on the text alone, so that equal texts have equal vectors and others do not. */
export function demoEmbedding(text: string): number[] {
  const bytes = createHash('shake256', { outputLength: dimensions * 2 })
    .update(text)
    .digest()
  const raw = Array.from({ length: dimensions }, (_, i) => bytes.readInt16LE(i * 2) + 0.5)
  const length = Math.hypot(...raw)
  return raw.map((value) => Number((value / length).toFixed(6)))
}

/** The text of the last user message, or of the prompt. */
function lastText(prompt: unknown): string {
  if (typeof prompt === 'string') return prompt
  if (!Array.isArray(prompt)) return ''
  const content: unknown = prompt.findLast((message) => field(message, 'role') === 'user')
  const said = field(content, 'content')
  if (typeof said === 'string') return said
  if (!Array.isArray(said)) return typeof prompt[0] === 'string' ? prompt[0] : ''
  return said
    .map((part) => field(part, 'text'))
    .filter((text) => typeof text === 'string')
    .join(' ')
}
