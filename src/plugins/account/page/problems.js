// Failures in words: what happened, and what to do now. Unknown codes keep the gateway's own message, which says the same.

import { ApiError } from './api.js'
import { h } from './dom.js'
import { texts } from './texts.js'

/**
 * @param {unknown} error
 * @returns {string}
 */
export function wordsFor(error) {
  if (!(error instanceof ApiError)) return texts.problems.broken
  /** @type {Record<string, string>} */
  const codes = texts.problems.codes
  const known = Object.hasOwn(codes, error.code) ? codes[error.code] : undefined
  const words = known ?? (error.message || texts.problems.broken)
  return error.retryAfter ? `${words} ${texts.problems.retryAfter(error.retryAfter)}` : words
}

/**
 * An alert, with a button to try again where that can help.
 * @param {unknown} error
 * @param {() => void} [retry]
 */
export function problem(error, retry) {
  // A mistake of the page's own must be found in the console.
  if (!(error instanceof ApiError)) console.error(error)
  const id = error instanceof ApiError ? error.requestId : undefined
  return h(
    'div',
    { class: 'notice bad', role: 'alert' },
    h('p', {}, wordsFor(error)),
    id && h('p', { class: 'help' }, texts.problems.requestId, ' ', h('code', {}, id)),
    retry && h('button', { type: 'button', onclick: retry }, texts.problems.retry),
  )
}
