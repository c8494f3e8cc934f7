// What a backend says when it refuses: the sentence in its body, in any of the usual shapes. `wordsIn` makes it fit for the log:
// one short line, without a secret of the target or a part of one.

import type { Target } from '../config/config.ts'
import { field, parsed } from '../http/json/field.ts'
import { mask, maskParts } from './secrets.ts'

/** For the operator's terminal: the sentence in `{error: {message}}`, `{error}`, `{detail}` or `{message}`, else the text, unless that is an HTML page; without secrets of the target. */
export function saidBy(body: Buffer, target: Target): string {
  const text = mask(body, target).toString()
  return maskParts(sentenceIn(text) ?? text, target)
}

const mostChars = 300
/** Of a longer text, only the beginning is looked at. */
const mostRead = 2000

/** '' when there is no sentence. JSON of another shape is left out, because it may quote the request. */
export function wordsIn(body: Buffer, target: Target): string {
  const sentence = sentenceIn(mask(body, target).toString()) ?? ''
  const line = sentence
    .slice(0, mostRead)
    .replace(/[\s\p{C}]+/gu, ' ')
    .trim()
  return maskParts(line, target).slice(0, mostChars).toWellFormed()
}

/** An HTML page; JSON or an event that is not whole, and may quote the request. */
const noSentence = /^\s*(?:[<{["]|data:|event:)/

/** Undefined when the text is JSON without a sentence. */
function sentenceIn(text: string): string | undefined {
  const value = parsed(text)
  if (value === undefined) return noSentence.test(text) ? '' : text
  const error = field(value, 'error')
  const candidates = [
    field(error, 'message'),
    error,
    field(value, 'detail'),
    field(value, 'message'),
  ]
  return candidates.find((one) => typeof one === 'string')
}
