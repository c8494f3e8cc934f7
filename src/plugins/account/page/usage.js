// Usage by day: filters, a chart, and a table of the same numbers; as CSV, too.

import { account, withQuery } from './api.js'
import { daysAgo, daysBetween, isoOf, midnight } from './calendar.js'
import { chartOf } from './chart.js'
import { h } from './dom.js'
import { bookFields, choice, csvLink, daysOf, filterForm, offer, refusal } from './filters.js'
import { dateOf, money, number, timeZone } from './format.js'
import { keyNames } from './key-names.js'
import { problem } from './problems.js'
import { texts } from './texts.js'
import { add, byDay, hoursOf, namesOf, nothing } from './usage-days.js'

/**
 * @typedef {import('./shapes.js').Key} Key
 * @typedef {import('./shapes.js').UsageRow} UsageRow
 * @typedef {import('./usage-days.js').Day} Day
 * @typedef {import('./usage-days.js').Sum} Sum
 */

const t = texts.usage
const f = texts.filters
/** A query has at most 1000 buckets, and a day has 25 hours when the clocks go back. */
const mostDays = 40

/** @param {import('./main.js').Context} context */
export async function open(context) {
  const { signal, query, keep, isOver } = context
  const today = midnight(new Date())
  const days = { from: isoOf(daysAgo(today, 29)), to: isoOf(today) }
  const { keys, model, key, from, to } = await bookFields(context, days)
  const result = h('div', { class: 'result' })
  const group = choice({ model: f.model, key: f.key }, query.get('group') ?? 'model')
  const measure = choice(t.measures, query.get('measure') ?? 'tokens')
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
      const range = daysOf({ from, to })
      result.replaceChildren(
        ...(await show({ context, range, chosen: chosen(), keys, model, signal: now })),
      )
    } catch (error) {
      if (!now.aborted && !isOver(error)) result.replaceChildren(problem(error, () => void draw()))
    }
  }
  const form = filterForm({
    fields: [
      [f.from, from],
      [f.to, to],
      [f.model, model],
      [f.key, key],
      [t.group, group],
      [t.measure, measure],
    ],
    changed: draw,
  })
  await draw()
  return h('div', { class: 'view' }, form, result)
}

/**
 * @typedef {Record<'group' | 'measure' | 'model' | 'key', string>} Chosen
 *
 * @param {{ context: import('./main.js').Context, range: ReturnType<typeof daysOf>, chosen: Chosen, keys: readonly Key[], model: HTMLSelectElement, signal: AbortSignal }} options
 * @returns {Promise<Node[]>}
 */
async function show({ context, range, chosen, keys, model, signal }) {
  if (!range?.first || !range.last) return [refusal(f.badRange)]
  const { first, last } = range
  const days = daysBetween(first, last)
  if (days.length > mostDays) return [refusal(t.tooLong(mostDays))]
  const query = {
    ...hoursOf({ first, last }),
    group_by: chosen.group === 'key' ? 'key' : 'model',
    ...(chosen.model && { model: chosen.model }),
    ...(chosen.key && { key: chosen.key }),
  }
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
      h('div', { class: 'panel-head' }, h('h2', {}, t.numbers), csvLink('usage', query)),
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
