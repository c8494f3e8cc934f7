// The filters above a list: a form that takes effect as soon as one of its fields has changed.

import { allOf, withQuery } from './api.js'
import { dateFrom } from './calendar.js'
import { h } from './dom.js'
import { texts } from './texts.js'

const t = texts.filters

/**
 * @typedef {object} Filters
 * @property {readonly (readonly [label: string, control: HTMLElement])[]} fields
 * @property {import('./dom.js').Child} [beside] after the fields
 * @property {() => Promise<void>} changed
 *
 * @param {Filters} filters
 */
export function filterForm({ fields, beside, changed }) {
  return h(
    'form',
    {
      class: 'filters',
      onchange: () => void changed(),
      onsubmit: (/** @type {Event} */ event) => event.preventDefault(),
    },
    fields.map(([label, control]) => h('label', {}, h('span', {}, label), control)),
    beside,
  )
}

/**
 * @param {Readonly<Record<string, string>>} options
 * @param {string} chosen
 */
export function choice(options, chosen) {
  return h(
    'select',
    {},
    Object.entries(options).map(([value, text]) =>
      h('option', { value, selected: value === chosen }, text),
    ),
  )
}

/**
 * The fields that usage and transactions share, as the address has them, and the keys of which one can be chosen.
 * @param {import('./main.js').Context} context
 * @param {{ from: string, to: string }} days that stand in the fields if the address has none
 */
export async function bookFields({ query, signal }, { from, to }) {
  /** @type {import('./shapes.js').Key[]} */
  const keys = await allOf('keys', { signal })
  return {
    keys,
    model: modelChoice(query),
    key: keyChoice(keys, query),
    from: dateField(query.get('from') ?? from),
    to: dateField(query.get('to') ?? to),
  }
}

/**
 * @param {readonly import('./shapes.js').Key[]} keys
 * @param {URLSearchParams} query
 */
function keyChoice(keys, query) {
  const names = keys.map(({ id, name, hint }) => [id, name || hint])
  return choice({ '': t.allKeys, ...Object.fromEntries(names) }, query.get('key') ?? '')
}

/** @param {URLSearchParams} query */
function modelChoice(query) {
  const select = choice({ '': t.allModels }, '')
  const wanted = query.get('model')
  if (wanted) offer(select, [{ model: wanted }])
  if (wanted) select.value = wanted
  return select
}

/**
 * Adds the models of these rows to the choice.
 * @param {HTMLSelectElement} select
 * @param {readonly { model?: string }[]} rows
 */
export function offer(select, rows) {
  const known = new Set([...select.options].map(({ value }) => value))
  for (const { model } of rows) {
    if (!model || known.has(model)) continue
    known.add(model)
    select.append(h('option', { value: model }, model))
  }
}

/** @param {string} value */
const dateField = (value) => h('input', { type: 'date', value })

/**
 * The days that two fields choose; a field without a day is no bound.
 * @param {{ from: HTMLInputElement, to: HTMLInputElement }} fields
 * @returns {{ first: Date | undefined, last: Date | undefined } | undefined} undefined if the first is after the last
 */
export function daysOf({ from, to }) {
  const [first, last] = [dateFrom(from.value), dateFrom(to.value)]
  return first && last && first > last ? undefined : { first, last }
}

/** @param {string} words */
export function refusal(words) {
  return h('p', { class: 'notice warn', role: 'alert' }, words)
}

/**
 * A link to all rows that a query finds.
 * @param {'usage' | 'transactions'} path
 * @param {Record<string, string | number | undefined>} query
 */
export function csvLink(path, query) {
  const href = `/account/api/${withQuery(path, { ...query, format: 'csv' })}`
  return h('a', { class: 'button', download: '', href }, t.csv)
}
