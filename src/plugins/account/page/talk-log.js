// The log of a chat: questions and answers, in a box that scrolls. It stays at its end while an answer grows, unless the
// reader has scrolled up to read.

import { h } from './dom.js'
import { answerOf, questionOf } from './messages.js'
import { texts } from './texts.js'

/** @typedef {import('./shapes.js').Message} Message */

const t = texts.playground
/** A reader who is less than this far from the end counts as being at the end. */
const nearPixels = 80

/** @param {import('./format.js').Currency | null} currency */
export function talkLog(currency) {
  let isAtEnd = true
  const element = h('div', {
    class: 'talk-log',
    role: 'log',
    'aria-live': 'off',
    'aria-label': t.log,
    tabindex: '0',
    onscroll() {
      isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < nearPixels
    },
  })
  const empty = h(
    'div',
    { class: 'talk-empty' },
    h('p', {}, h('strong', {}, t.empty)),
    h('p', {}, t.emptyHelp),
  )
  element.append(empty)
  const toEnd = () => {
    if (isAtEnd) element.scrollTop = element.scrollHeight
  }
  /** @param {HTMLElement} one */
  const add = (one) => {
    empty.remove()
    element.append(one)
  }
  return {
    element,
    toEnd,
    /** @param {Message['content']} content */
    addQuestion(content) {
      const question = questionOf(content)
      add(question)
      return question
    },
    /** @param {{ model: string, sentAt?: number }} options */
    addAnswer(options) {
      const answer = answerOf({ ...options, currency, drawn: toEnd })
      add(answer.element)
      return answer
    },
    /** The reader has sent something, and wants to see what becomes of it. */
    follow() {
      isAtEnd = true
      toEnd()
    },
    /** @param {HTMLElement[]} withdrawn */
    remove(...withdrawn) {
      for (const one of withdrawn) one.remove()
      if (element.childNodes.length === 0) element.append(empty)
    },
  }
}
