// Questions and answers as they are shown. An answer is drawn while it comes, at most every tenth of a second, and drawn
// once more when it is whole.

import { h } from './dom.js'
import { money, number } from './format.js'
import { rendered } from './markdown.js'
import { problem } from './problems.js'
import { ApiError } from './api.js'
import { texts } from './texts.js'

/**
 * @typedef {import('./shapes.js').Message} Message
 * @typedef {ReturnType<typeof answerOf>} Answer
 */

const t = texts.playground
const drawEveryMs = 100
/**
 * After a drawing, the next one waits at least this many times as long as it took: so drawing takes at most a fifth of
 * the time.
 */
const drawShare = 4

/** @param {Message['content']} content */
export function questionOf(content) {
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? [])
  return h(
    'article',
    { class: 'question', 'aria-label': t.you },
    parts.map((part) =>
      part.file
        ? h('p', { class: 'chip' }, part.file.filename ?? part.file.file_id)
        : h('p', { class: 'said' }, part.text ?? ''),
    ),
  )
}

/**
 * @param {{ model: string, currency: import('./format.js').Currency | null, sentAt?: number, drawn: () => void }} options
 *   `sentAt`: by `performance.now()`, for answers that were asked for in this page
 */
export function answerOf({ model, currency, sentAt, drawn }) {
  const thought = h('p', { class: 'said' })
  const thinking = h(
    'details',
    { class: 'thinking', hidden: true },
    h('summary', {}, t.thinking),
    thought,
  )
  const body = h('div', { class: 'markdown' })
  const state = h('p', { class: 'state' }, t.waiting)
  const figures = h('p', { class: 'figures' })
  const element = h(
    'article',
    { class: 'answer', 'aria-label': t.answerOf(model), 'aria-busy': 'true' },
    h('p', { class: 'speaker' }, model),
    thinking,
    body,
    state,
    figures,
  )
  const said = { content: '', reasoning: '' }
  /** @type {number | undefined} */
  let firstAt
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer
  let waitMs = drawEveryMs
  let isOver = false
  const draw = async () => {
    const began = performance.now()
    thinking.hidden = said.reasoning === ''
    thought.textContent = said.reasoning
    body.replaceChildren(await rendered(said.content))
    drawn()
    waitMs = Math.max(drawEveryMs, drawShare * (performance.now() - began))
  }
  return {
    element,
    /** @param {{ content?: string, reasoning?: string }} delta */
    hear({ content = '', reasoning = '' }) {
      if (content === '' && reasoning === '') return
      firstAt ??= performance.now()
      said.content += content
      said.reasoning += reasoning
      state.textContent = t.writing
      timer ??= setTimeout(() => {
        timer = undefined
        if (!isOver) void draw()
      }, waitMs)
    },
    /** @param {boolean} isCut */
    setCut(isCut) {
      state.textContent = isCut ? t.reconnecting : said.content === '' ? t.waiting : t.writing
    },
    /** @param {Message} message */
    async end(message) {
      const endedAt = performance.now()
      isOver = true
      clearTimeout(timer)
      said.content = textOf(message.content)
      said.reasoning = message.reasoning ?? ''
      await draw()
      element.setAttribute('aria-busy', 'false')
      state.replaceChildren(...endingOf(message))
      state.hidden = state.childNodes.length === 0
      figures.textContent = figuresOf(message, { currency, sentAt, firstAt, endedAt }).join(' · ')
      drawn()
    },
  }
}

/** @param {Message['content']} content */
function textOf(content) {
  if (typeof content === 'string') return content
  return (content ?? []).map(({ text = '' }) => text).join('\n')
}

/**
 * @param {Message} message
 * @returns {(Node | string)[]}
 */
function endingOf({ status, error, finish_reason: reason }) {
  if (status === 'cancelled') return [t.stopped]
  if (error) return [problem(new ApiError(error.code, { message: error.message }))]
  return reason === 'length' ? [t.byLength] : []
}

/**
 * @param {Message} message
 * @param {{ currency: import('./format.js').Currency | null, sentAt?: number | undefined, firstAt: number | undefined, endedAt: number }} known
 */
function figuresOf({ usage, cost }, { currency, sentAt, firstAt, endedAt }) {
  const figures = []
  if (sentAt !== undefined && firstAt !== undefined) {
    figures.push(t.firstToken(number(Math.round(firstAt - sentAt))))
    const seconds = (endedAt - firstAt) / 1000
    if (usage && seconds > 0)
      figures.push(t.speed(number(Math.round(usage.completion_tokens / seconds))))
  }
  if (usage)
    figures.push(
      texts.transactions.inOut(number(usage.prompt_tokens), number(usage.completion_tokens)),
    )
  if (cost !== null) {
    const worth = money(cost, currency)
    figures.push(worth ? `${t.cost(number(cost))} (${worth})` : t.cost(number(cost)))
  }
  return figures
}
