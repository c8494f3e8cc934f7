// Usage by day: filters, a chart, and a table of the same numbers; as CSV, too.

import { account, allOf, withQuery } from './api.js'
import { chartOf } from './chart.js'
import { h } from './dom.js'
import { dateOf, money, number, timeZone } from './format.js'
import { keyNames } from './key-names.js'
import { problem } from './problems.js'
import { texts } from './texts.js'
import { add, byDay, daysBetween, midnight, namesOf, nothing } from './usage-days.js'

/**
 * @typedef {import('./shapes.js').Key} Key
 * @typedef {import('./shapes.js').UsageRow} UsageRow
 * @typedef {import('./usage-days.js').Day} Day
 * @typedef {import('./usage-days.js').Sum} Sum
 */

const t = texts.usage
/** A query has at most 1000 buckets, and a day has 25 hours when the clocks go back. */
const mostDays = 40

/** @param {import('./main.js').Context} context */
export async function open(context) {
  const { signal, query, keep, isOver } = context
  /** @type {Key[]} */
  const keys = await allOf('keys', { signal })
  const result = h('div', { class: 'result' })
  const today = midnight(new Date())
  const from = h('input', { type: 'date', value: query.get('from') ?? isoOf(daysAgo(today, 29)) })
  const to = h('input', { type: 'date', value: query.get('to') ?? isoOf(today) })
  const group = choice({ model: t.byModel, key: t.byKey }, query.get('group') ?? 'model')
  const measure = choice(t.measures, query.get('measure') ?? 'tokens')
  const model = h('select', {}, h('option', { value: '' }, t.allModels))
  const key = choice(
    { '': t.allKeys, ...Object.fromEntries(keys.map((one) => [one.id, one.name || one.hint])) },
    query.get('key') ?? '',
  )
  const csv = h('a', { class: 'button', download: '' }, t.csv)
  const chosen = () => ({
    from: from.value,
    to: to.value,
    group: group.value,
    measure: measure.value,
    model: model.value,
    key: key.value,
  })
  let drawing = new AbortController()
  const draw = async () => {
    drawing.abort()
    drawing = new AbortController()
    const now = AbortSignal.any([signal, drawing.signal])
    keep(chosen())
    try {
      result.replaceChildren(
        ...(await show({ context, chosen: chosen(), keys, model, csv, signal: now })),
      )
    } catch (error) {
      if (!now.aborted && !isOver(error)) result.replaceChildren(problem(error, () => void draw()))
    }
  }
  const wanted = query.get('model')
  if (wanted) model.append(h('option', { value: wanted, selected: true }, wanted))
  const form = h(
    'form',
    {
      class: 'filters',
      onchange: () => void draw(),
      onsubmit: (/** @type {Event} */ event) => event.preventDefault(),
    },
    labelled(t.from, from),
    labelled(t.to, to),
    labelled(t.model, model),
    labelled(t.key, key),
    labelled(t.group, group),
    labelled(t.measure, measure),
  )
  await draw()
  return h('div', { class: 'view' }, form, result)
}

/**
 * @param {string} label
 * @param {HTMLElement} control
 */
export function labelled(label, control) {
  return h('label', {}, h('span', {}, label), control)
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

/** @param {Date} date */
function isoOf(date) {
  const two = (/** @type {number} */ value) => String(value).padStart(2, '0')
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
}

/**
 * Midnight of a day of the calendar, in the browser's time zone.
 * @param {string} iso
 */
export function dateFrom(iso) {
  const [year = NaN, month = NaN, day = NaN] = iso.split('-').map(Number)
  const date = new Date(year, month - 1, day)
  return Number.isNaN(date.getTime()) ? undefined : date
}

/**
 * @param {Date} date
 * @param {number} count
 */
export const daysAgo = (date, count) =>
  new Date(date.getFullYear(), date.getMonth(), date.getDate() - count)

/**
 * @typedef {Record<'from' | 'to' | 'group' | 'measure' | 'model' | 'key', string>} Chosen
 *
 * @param {{ context: import('./main.js').Context, chosen: Chosen, keys: readonly Key[], model: HTMLSelectElement, csv: HTMLAnchorElement, signal: AbortSignal }} options
 * @returns {Promise<Node[]>}
 */
async function show({ context, chosen, keys, model, csv, signal }) {
  const [first, last] = [dateFrom(chosen.from), dateFrom(chosen.to)]
  if (!first || !last || first > last)
    return [h('p', { class: 'notice warn', role: 'alert' }, t.badRange)]
  const days = daysBetween(first, last)
  if (days.length > mostDays)
    return [h('p', { class: 'notice warn', role: 'alert' }, t.tooLong(mostDays))]
  const query = {
    from: first.getTime() / 1000,
    to: daysAgo(last, -1).getTime() / 1000,
    bucket: 'hour',
    group_by: chosen.group === 'key' ? 'key' : 'model',
    ...(chosen.model && { model: chosen.model }),
    ...(chosen.key && { key: chosen.key }),
  }
  csv.href = `/account/api/${withQuery('usage', { ...query, format: 'csv' })}`
  const { data } = /** @type {import('./shapes.js').List<UsageRow>} */ (
    await account(withQuery('usage', query), { signal })
  )
  offer(model, data)
  const found = byDay(data, days, chosen.group === 'key' ? 'key_id' : 'model')
  const measure = measures[/** @type {keyof typeof measures} */ (chosen.measure)] ?? measures.tokens
  const names = namesOf(found, measure)
  if (names.length === 0) return [h('div', { class: 'panel empty' }, h('p', {}, t.none))]
  const nameOf = keyNames(keys, context.me)
  const label = (/** @type {string} */ name) => (chosen.group === 'key' ? nameOf(name) : name)
  const series = names.map(({ name }) => ({
    name: label(name),
    values: found.map(({ by }) => measure(by.get(name) ?? nothing())),
  }))
  const title = t.title(
    t.measures[/** @type {keyof typeof t.measures} */ (chosen.measure)] ?? t.measures.tokens,
  )
  return [
    h(
      'section',
      { class: 'panel' },
      h('h2', {}, title),
      h('p', { class: 'help' }, t.zone(timeZone)),
      chartOf({ title, days, series, signal }),
    ),
    h(
      'section',
      { class: 'panel' },
      h('div', { class: 'panel-head' }, h('h2', {}, t.numbers), csv),
      table({ found, label, context }),
    ),
  ]
}

/** @type {Record<'tokens' | 'cost' | 'requests', (sum: Sum) => number>} */
const measures = {
  tokens: ({ prompt, completion }) => prompt + completion,
  cost: ({ cost }) => cost,
  requests: ({ requests }) => requests,
}

/**
 * The models that were used can be chosen.
 * @param {HTMLSelectElement} select
 * @param {readonly UsageRow[]} rows
 */
function offer(select, rows) {
  const known = new Set([...select.options].map(({ value }) => value))
  for (const { model } of rows) {
    if (!model || known.has(model)) continue
    known.add(model)
    select.append(h('option', { value: model }, model))
  }
}

/** @param {{ found: readonly Day[], label: (name: string) => string, context: import('./main.js').Context }} options */
function table({ found, label, context }) {
  const total = nothing()
  const rows = found.toReversed().flatMap(({ start, by }) =>
    [...by].map(([name, sum]) => {
      add(total, sum)
      return h(
        'tr',
        {},
        h('th', { scope: 'row' }, dateOf(start)),
        h('td', {}, label(name)),
        ...amounts(sum, context),
      )
    }),
  )
  return h(
    'div',
    { class: 'wide', tabindex: '0', role: 'region', 'aria-label': t.numbers },
    h(
      'table',
      {},
      h('caption', { class: 'unseen' }, t.numbers),
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          [t.day, t.name].map((name) => h('th', { scope: 'col' }, name)),
          t.columns.map((name) => h('th', { scope: 'col', class: 'amount' }, name)),
        ),
      ),
      h('tbody', {}, rows),
      h(
        'tfoot',
        {},
        h('tr', {}, h('th', { scope: 'row' }, t.total), h('td', {}), ...amounts(total, context)),
      ),
    ),
  )
}

/**
 * @param {Sum} sum
 * @param {import('./main.js').Context} context
 */
function amounts({ requests, prompt, cached, completion, cost }, { me }) {
  return [
    amount(number(requests)),
    amount(number(prompt), cached > 0 && texts.transactions.cached(number(cached))),
    amount(number(completion)),
    amount(number(cost), money(cost, me.currency)),
  ]
}

/**
 * @param {string} value
 * @param {import('./dom.js').Child} [under]
 */
function amount(value, under) {
  return h('td', { class: 'amount' }, value, under && h('small', {}, under))
}
