// What the plan allows, and how much of it is used now.

import { account } from './api.js'
import { h } from './dom.js'
import { bytes, number } from './format.js'
import { problem } from './problems.js'
import { texts } from './texts.js'

/**
 * @typedef {{ limit: number, used: number }} Limit
 * @typedef {Partial<Record<keyof typeof texts.limits.names, Limit>>} Limits
 */

const t = texts.limits
/** Often enough to watch a load, and hardly a load itself. */
const everyMs = 10_000

/** @param {import('./main.js').Context} context */
export async function open({ me, signal, isOver }) {
  const place = h('div', { class: 'view' })
  /** @type {ReturnType<typeof setTimeout>} */
  let timer
  signal.addEventListener('abort', () => clearTimeout(timer))
  const draw = async () => {
    const limits = /** @type {Limits} */ (await account('limits', { signal }))
    place.replaceChildren(h('p', { class: 'lead' }, t.lead(me.plan)), listOf(limits))
    timer = setTimeout(() => void again(), everyMs)
  }
  const again = async () => {
    if (document.visibilityState === 'hidden')
      return void (timer = setTimeout(() => void again(), everyMs))
    try {
      await draw()
    } catch (error) {
      if (!signal.aborted && !isOver(error))
        place.replaceChildren(problem(error, () => void again()))
    }
  }
  await draw()
  return place
}

/** @param {Limits} limits */
function listOf(limits) {
  const names = /** @type {(keyof typeof t.names)[]} */ (Object.keys(t.names))
  return h(
    'section',
    { class: 'panel limits' },
    names.flatMap((name) => {
      const found = limits[name]
      return found ? limitOf(name, found) : []
    }),
  )
}

/**
 * @param {keyof typeof t.names} name
 * @param {Limit} found
 */
function limitOf(name, { limit, used }) {
  const write = name === 'storage' ? bytes : number
  const share = limit === 0 ? 1 : Math.min(1, used / limit)
  return h(
    'div',
    { class: 'limit' },
    h('div', {}, h('h2', {}, t.names[name]), h('p', { class: 'help' }, t.help[name])),
    h('p', { class: 'limit-words' }, t.of(write(used), write(limit))),
    h('meter', {
      'aria-label': t.names[name],
      min: 0,
      max: 1,
      low: 0.8,
      high: 0.95,
      optimum: 0,
      value: share,
    }),
  )
}
