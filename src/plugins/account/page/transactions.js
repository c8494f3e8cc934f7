// Every movement of money, newest first, page after page as the reader scrolls. Each page of rows is a block that the
// browser does not lay out while it is out of sight, so that ten thousand rows scroll as ten do.

import { account, withQuery } from './api.js'
import { daysAgo, secondsOf } from './calendar.js'
import { announce, h, redraw } from './dom.js'
import { bookFields, choice, csvLink, daysOf, filterForm, offer, refusal } from './filters.js'
import { momentOf, money, number } from './format.js'
import { keyNames } from './key-names.js'
import { problem } from './problems.js'
import { texts } from './texts.js'

/**
 * @typedef {import('./shapes.js').Transaction} Transaction
 * @typedef {import('./shapes.js').Key} Key
 */

const t = texts.transactions
const f = texts.filters
const rowsAPage = 100

/** @param {import('./main.js').Context} context */
export async function open(context) {
  const { signal, query, keep } = context
  const { keys, model, key, from, to } = await bookFields(context, { from: '', to: '' })
  const type = choice({ '': t.allTypes, ...t.types }, query.get('type') ?? '')
  offer(
    model,
    context.me.models.map(({ id }) => ({ model: id })),
  )
  const value = query.get('reference') ?? ''
  const reference = h('input', { type: 'search', value, maxlength: 255, placeholder: t.ofPayment })
  const csv = h('div', { class: 'filters-csv' })
  const place = h('div', {})
  let listing = new AbortController()
  const draw = async () => {
    listing.abort()
    listing = new AbortController()
    const chosen = {
      type: type.value,
      model: model.value,
      key: key.value,
      reference: reference.value.trim(),
    }
    keep({ ...chosen, from: from.value, to: to.value })
    csv.replaceChildren()
    const days = daysOf({ from, to })
    if (!days) return place.replaceChildren(refusal(f.badRange))
    const filter = {
      ...chosen,
      from: days.first && secondsOf(days.first),
      to: days.last && secondsOf(daysAgo(days.last, -1)),
    }
    csv.replaceChildren(csvLink('transactions', filter))
    const table = new Table({
      context,
      keys,
      filter,
      found: (rows) => offer(model, rows),
      signal: AbortSignal.any([signal, listing.signal]),
    })
    place.replaceChildren(table.element)
    await table.more()
  }
  const form = filterForm({
    fields: [
      [t.type, type],
      [f.model, model],
      [f.key, key],
      [f.from, from],
      [f.to, to],
      [t.reference, reference],
    ],
    beside: csv,
    changed: draw,
  })
  await draw()
  return h('div', { class: 'view' }, form, place)
}

/** A table whose rows are blocks: its roles are written out, because as blocks they have none of their own. */
class Table {
  #options
  #after = ''
  #isLoading = false
  /** Whether no row was found yet: a page may be without rows although more pages follow. */
  #isEmpty = true
  #end
  #watch
  #table
  #nameOf

  /**
   * @param {{ context: import('./main.js').Context, keys: readonly Key[], filter: Record<string, string | number | undefined>, found: (rows: readonly Transaction[]) => void, signal: AbortSignal }} options
   */
  constructor(options) {
    this.#options = options
    this.#nameOf = keyNames(options.keys, options.context.me)
    this.#end = h('div', { class: 'list-end' }, this.#moreButton())
    this.#table = h(
      'div',
      { role: 'table', class: 'rows', 'aria-label': texts.views.transactions },
      h(
        'div',
        { role: 'rowgroup', class: 'rows-head' },
        h(
          'div',
          { role: 'row', class: 'row' },
          t.columns.map((name) => h('span', { role: 'columnheader' }, name)),
        ),
      ),
    )
    this.element = h('section', { class: 'panel flush' }, this.#table, this.#end)
    // Of several changes the last one counts.
    this.#watch = new IntersectionObserver(
      (changes) => void (changes.at(-1)?.isIntersecting && this.more()),
      { rootMargin: '1500px' },
    )
    options.signal.addEventListener('abort', () => this.#watch.disconnect())
  }

  async more() {
    if (this.#isLoading) return
    this.#isLoading = true
    this.#watch.unobserve(this.#end)
    const { filter, found, signal, context } = this.#options
    try {
      /** @type {import('./shapes.js').List<Transaction>} */
      const page = await account(
        withQuery('transactions', { ...filter, limit: rowsAPage, after: this.#after }),
        { signal },
      )
      found(page.data)
      this.#add(page.data)
      this.#after = page.last_id ?? ''
      if (page.has_more) {
        redraw(this.#end, [this.#moreButton()])
        // Tells at once whether the end is still near.
        this.#watch.observe(this.#end)
      } else {
        const words = this.#isEmpty ? t.none : t.end
        redraw(this.#end, [
          h('p', { class: 'help', tabindex: '-1', 'data-control': 'more' }, words),
        ])
      }
    } catch (error) {
      if (signal.aborted || context.isOver(error)) return
      this.#end.replaceChildren(problem(error, () => void this.more()))
    } finally {
      this.#isLoading = false
    }
  }

  #moreButton() {
    return h(
      'button',
      {
        type: 'button',
        class: 'quiet',
        'data-control': 'more',
        onclick: () => void this.more().then(() => announce(t.loaded)),
      },
      t.more,
    )
  }

  /** @param {readonly Transaction[]} rows */
  #add(rows) {
    if (rows.length === 0) return
    this.#isEmpty = false
    const group = h(
      'div',
      { role: 'rowgroup', class: rows.length === rowsAPage ? 'rows-page whole' : 'rows-page' },
      rows.map((row) => this.#row(row)),
    )
    this.#table.append(group)
  }

  /** @param {Transaction} row */
  #row(row) {
    const { context } = this.#options
    const { usage, amount } = row
    const worth = money(amount, context.me.currency)
    // An entry of an earlier version: now corrections have a type of their own.
    const isCorrection = row.type === 'adjustment' && row.request_id !== undefined
    const title = isCorrection
      ? t.types.correction
      : (t.types[/** @type {keyof typeof t.types} */ (row.type)] ?? row.type)
    const about = [row.model, row.key_id && this.#nameOf(row.key_id)].filter(Boolean).join(' · ')
    return h(
      'div',
      { role: 'row', class: 'row' },
      h('span', { role: 'cell', class: 'when' }, momentOf(row.created_at)),
      h(
        'span',
        { role: 'cell', class: 'what' },
        h('b', {}, title),
        about && h('span', { class: 'about', title: about }, about),
        row.note && h('span', { class: 'note' }, row.note),
        (row.request_id ?? row.reference) && h('code', {}, row.request_id ?? row.reference),
      ),
      h(
        'span',
        { role: 'cell', class: 'tokens' },
        usage &&
          h('span', {}, t.inOut(number(usage.prompt_tokens), number(usage.completion_tokens))),
        usage?.cached_tokens ? h('small', {}, t.cached(number(usage.cached_tokens))) : null,
        usage &&
          row.estimated !== undefined &&
          h('small', {}, row.estimated ? t.estimated : t.reported),
        row.cut && h('small', {}, t.cut),
      ),
      h(
        'span',
        { role: 'cell', class: `amount ${amount > 0 ? 'plus' : ''}` },
        h('b', {}, amount > 0 ? `+${number(amount)}` : number(amount)),
        worth && h('small', {}, worth),
        row.owed ? h('small', {}, t.owed(number(row.owed))) : null,
      ),
      h('span', { role: 'cell', class: 'amount after' }, number(row.balance_after)),
    )
  }
}
