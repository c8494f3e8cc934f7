// What is left, how long it lasts, and where the last thirty days went.

import { account, allOf, withQuery } from './api.js'
import { lastDays } from './calendar.js'
import { chartOf } from './chart.js'
import { h } from './dom.js'
import { ago, money, number, timeZone } from './format.js'
import { texts } from './texts.js'
import { keyNames } from './key-names.js'
import { byDay, namesOf, nothing } from './usage-days.js'

/**
 * @typedef {import('./shapes.js').Balance} Balance
 * @typedef {import('./shapes.js').UsageRow} UsageRow
 * @typedef {import('./shapes.js').Key} Key
 * @typedef {import('./usage-days.js').Day} Day
 */

const daysShown = 30
/** A rate over few days follows changes quickly, and over seven one day without requests changes it little. */
const daysOfRate = 7
const t = texts.overview

/** @param {import('./main.js').Context} context */
export async function open({ signal }) {
  const days = lastDays(31)
  const query = { from: days[0], bucket: 'hour' }
  const [me, balance, models, keys, named] = await Promise.all([
    // Whether the balance is low may have changed since the page was opened.
    /** @type {Promise<import('./main.js').Me>} */ (account('me', { signal })),
    /** @type {Promise<Balance>} */ (account('balance', { signal })),
    rowsOf({ ...query, group_by: 'model' }, signal),
    rowsOf({ ...query, group_by: 'key' }, signal),
    /** @type {Promise<Key[]>} */ (allOf('keys', { signal })),
  ])
  const all = byDay(models, days, 'model')
  const shown = days.slice(-daysShown)
  const isUsed = models.length > 0
  return h(
    'div',
    { class: 'view' },
    warning(me, balance),
    cards({ me, balance, days: all }),
    isUsed
      ? [
          h(
            'section',
            { class: 'panel' },
            h('h2', {}, t.byModel),
            h('p', { class: 'help' }, t.zone(timeZone)),
            modelChart(all.slice(-daysShown), shown, signal),
          ),
          h(
            'section',
            { class: 'panel' },
            h('h2', {}, t.byKey),
            h('p', { class: 'help' }, t.byKeyHelp),
            keyChart(byDay(keys, shown, 'key_id'), { shown, nameOf: keyNames(named, me), signal }),
          ),
        ]
      : firstSteps(named),
  )
}

/**
 * @param {Record<string, string | number | undefined>} query
 * @param {AbortSignal} signal
 * @returns {Promise<UsageRow[]>}
 */
async function rowsOf(query, signal) {
  const { data } = /** @type {import('./shapes.js').List<UsageRow>} */ (
    await account(withQuery('usage', query), { signal })
  )
  return data
}

/**
 * @param {import('./main.js').Me} me
 * @param {Balance} balance
 */
function warning({ low_balance: isLow }, { available, owed, budget }) {
  if (available === 0) {
    const isOfBudget = budget && budget.used >= budget.tokens
    const words = owed > 0 ? t.owes(number(owed)) : isOfBudget ? t.budgetUsed : t.empty
    return h('div', { class: 'notice bad' }, h('p', {}, words))
  }
  return isLow && h('div', { class: 'notice warn' }, h('p', {}, t.low))
}

/** @param {{ me: import('./main.js').Me, balance: Balance, days: readonly Day[] }} shown */
function cards({ me, balance, days }) {
  const { available, reserved, owed, allowance, budget } = balance
  const month = spentSince(days, new Date(new Date().getFullYear(), new Date().getMonth(), 1))
  /** @param {number} tokens */
  const inMoney = (tokens) => money(tokens, me.currency)
  return h(
    'dl',
    { class: 'cards' },
    card({
      label: t.available,
      value: number(available),
      under: inMoney(available) ?? t.unit,
      mark: me.low_balance ? t.isLow : undefined,
    }),
    allowance &&
      card({
        label: t.allowance(allowance.every),
        value: number(allowance.left),
        under: windowOf(allowance),
      }),
    budget &&
      card({
        label: t.budget(budget.every),
        value: number(Math.max(0, budget.tokens - budget.used)),
        under: windowOf(budget),
      }),
    card({ label: t.reserved, value: number(reserved), under: t.reservedUnder }),
    card({ label: t.month, value: number(month), under: inMoney(month) ?? t.unit }),
    owed > 0 &&
      card({
        label: t.owed,
        value: number(owed),
        under: inMoney(owed) ?? t.unit,
        mark: t.owedMark,
      }),
    card({ label: t.lasts, ...lasting(available, days) }),
  )
}

/** @param {{ tokens: number, renews_at: number | null }} capped */
function windowOf({ tokens, renews_at: renewsAt }) {
  return t.left(number(tokens), renewsAt === null ? undefined : ago(renewsAt))
}

/** @param {{ label: string, value: string, under: string, mark?: string | undefined }} card */
function card({ label, value, under, mark }) {
  return h(
    'div',
    { class: 'card' },
    h('dt', {}, label, mark && h('span', { class: 'badge warn' }, mark)),
    h('dd', {}, h('b', {}, value), h('span', {}, under)),
  )
}

/**
 * @param {readonly Day[]} days
 * @param {Date} from
 */
function spentSince(days, from) {
  let cost = 0
  for (const { start, by } of days) {
    if (start * 1000 < from.getTime()) continue
    for (const sum of by.values()) cost += sum.cost
  }
  return cost
}

/**
 * @param {number} left
 * @param {readonly Day[]} days
 */
function lasting(left, days) {
  const recent = days.slice(-daysOfRate)
  const spent = recent.reduce(
    (sum, { by }) => sum + [...by.values()].reduce((of, { cost }) => of + cost, 0),
    0,
  )
  if (spent === 0) return { value: '–', under: t.noRate }
  const daysLeft = left / (spent / daysOfRate)
  const value =
    daysLeft < 1 ? t.lessThanADay : daysLeft > 730 ? t.years : t.days(Math.floor(daysLeft))
  return { value, under: t.rate }
}

/**
 * @param {readonly Day[]} days
 * @param {readonly number[]} shown
 * @param {AbortSignal} signal
 */
function modelChart(days, shown, signal) {
  /** @param {import('./usage-days.js').Sum} sum */
  const tokens = (sum) => sum.prompt + sum.completion
  const series = namesOf(days, tokens).map(({ name }) => ({
    name,
    values: days.map(({ by }) => tokens(by.get(name) ?? nothing())),
  }))
  return chartOf({ title: t.byModel, days: shown, series, signal })
}

/**
 * @param {readonly Day[]} days
 * @param {{ shown: readonly number[], nameOf: (id: string) => string, signal: AbortSignal }} options
 */
function keyChart(days, { shown, nameOf, signal }) {
  const series = namesOf(days, ({ cost }) => cost).map(({ name }) => ({
    name: nameOf(name),
    values: days.map(({ by }) => by.get(name)?.cost ?? 0),
  }))
  return chartOf({ title: t.byKey, days: shown, series, signal })
}

/** @param {readonly Key[]} keys */
function firstSteps(keys) {
  const hasKey = keys.some(({ status }) => status === 'active')
  return h(
    'section',
    { class: 'panel empty' },
    h('h2', {}, t.start),
    h('p', {}, hasKey ? t.startWithKey : t.startWithout),
    h(
      'p',
      {},
      h(
        'a',
        { class: 'button primary', href: hasKey ? '#playground' : '#keys' },
        hasKey ? t.toPlayground : t.toKeys,
      ),
    ),
  )
}
