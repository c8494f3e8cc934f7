// A chart of stacked bars, a bar a day, with its legend and the same numbers as a table for those who can't see it or
// want to copy them. At most seven names have a colour of their own; the others are together.

import { h } from './dom.js'
import { number, shortDay, shortNumber, dateOf } from './format.js'
import { loadPlot } from './packages.js'
import { texts } from './texts.js'

/**
 * @typedef {{ name: string, values: number[] }} Series
 * @typedef {{ title: string, days: readonly number[], series: readonly Series[], signal: AbortSignal }} Chart
 */

const mostSeries = 7

/** @param {Chart} chart */
export function chartOf({ title, days, series, signal }) {
  const shown = joined(series)
  const stage = h('div', { class: 'chart', role: 'img', 'aria-label': texts.chart.label(title) })
  void draw(stage, { title, days, series: shown, signal }).catch((error) => console.error(error))
  return h(
    'div',
    { class: 'chart-box' },
    stage,
    h(
      'ul',
      { class: 'legend' },
      shown.map(({ name, values }, i) =>
        h(
          'li',
          {},
          h('i', { class: `swatch s${i}`, 'aria-hidden': 'true' }),
          h('span', { title: name }, name),
          h('b', {}, shortNumber(total(values))),
        ),
      ),
    ),
    numbers({ title, days, series: shown }),
  )
}

/** @param {readonly number[]} values */
const total = (values) => values.reduce((sum, value) => sum + value, 0)

/**
 * @param {readonly Series[]} series
 * @returns {Series[]}
 */
function joined(series) {
  if (series.length <= mostSeries) return [...series]
  const rest = series.slice(mostSeries - 1)
  const values = (rest[0]?.values ?? []).map((_, i) => total(rest.map((one) => one.values[i] ?? 0)))
  return [...series.slice(0, mostSeries - 1), { name: texts.chart.others(rest.length), values }]
}

/** @param {Omit<Chart, 'signal'>} chart */
function numbers({ title, days, series }) {
  const rows = days
    .map((day, i) => ({ day, values: series.map(({ values }) => values[i] ?? 0) }))
    .filter(({ values }) => values.some((value) => value > 0))
    .toReversed()
  return h(
    'details',
    { class: 'numbers' },
    h('summary', {}, texts.chart.numbers),
    h(
      'div',
      { class: 'wide', tabindex: '0', role: 'region', 'aria-label': title },
      h(
        'table',
        {},
        h('caption', { class: 'unseen' }, title),
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            h('th', { scope: 'col' }, texts.chart.day),
            series.map(({ name }) => h('th', { scope: 'col', class: 'amount' }, name)),
          ),
        ),
        h(
          'tbody',
          {},
          rows.map(({ day, values }) =>
            h(
              'tr',
              {},
              h('th', { scope: 'row' }, dateOf(day)),
              values.map((value) => h('td', { class: 'amount' }, number(value))),
            ),
          ),
        ),
      ),
    ),
  )
}

/**
 * @param {HTMLElement} stage
 * @param {Chart} chart
 */
async function draw(stage, { days, series, signal }) {
  const Plot = await loadPlot()
  if (signal.aborted) return
  // Bars of a stack are drawn over each other, the highest first.
  const sums = days.map(() => 0)
  const stack = series.map(({ values }) =>
    values.map((value, i) => (sums[i] = (sums[i] ?? 0) + value)),
  )
  const tip = h('div', { class: 'tip', hidden: true })
  /** @type {import('uplot') | undefined} */
  let plot
  const make = () => {
    plot?.destroy()
    plot = new Plot(
      options({ Plot, stage, days, series, tip }),
      [days.map((_, i) => i), ...stack.toReversed()],
      stage,
    )
    plot.over.append(tip)
  }
  make()
  const sized = new ResizeObserver(() => plot?.setSize(sizeOf(stage)))
  sized.observe(stage)
  const scheme = matchMedia('(prefers-color-scheme: dark)')
  scheme.addEventListener('change', make)
  signal.addEventListener('abort', () => {
    sized.disconnect()
    scheme.removeEventListener('change', make)
    plot?.destroy()
  })
}

/** @param {HTMLElement} stage */
const sizeOf = (stage) => ({ width: stage.clientWidth, height: stage.clientHeight })

/**
 * @param {{ Plot: typeof import('uplot'), stage: HTMLElement, days: readonly number[], series: readonly Series[], tip: HTMLElement }} chart
 * @returns {import('uplot').Options}
 */
function options({ Plot, stage, days, series, tip }) {
  const style = getComputedStyle(stage)
  const colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim()
  const axis = {
    stroke: colour('--muted'),
    font: '12px system-ui, sans-serif',
    ticks: { show: false },
  }
  return {
    ...sizeOf(stage),
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    scales: {
      x: { time: false, range: [-0.6, days.length - 0.4] },
      y: { range: (_, _min, max) => [0, max > 0 ? max * 1.08 : 1] },
    },
    axes: [
      {
        ...axis,
        size: 28,
        grid: { show: false },
        splits: (plot) => ticks(days.length, Math.max(2, Math.floor(plot.width / 90))),
        values: (_, at) => at.map((i) => shortDay(days[i] ?? 0)),
      },
      {
        ...axis,
        size: 48,
        grid: { stroke: colour('--line'), width: 1 },
        values: (_, at) => at.map((value) => shortNumber(value)),
      },
    ],
    series: [
      {},
      ...series
        .map((_, i) => ({
          fill: colour(`--s${i}`),
          width: 0,
          points: { show: false },
          ...bars(Plot),
        }))
        .toReversed(),
    ],
    hooks: { setCursor: [(plot) => showTip({ plot, days, series, tip })] },
  }
}

/** @param {typeof import('uplot')} Plot */
function bars(Plot) {
  const paths = Plot.paths.bars?.({ size: [0.7, 40], radius: 0.12 })
  return paths ? { paths } : {}
}

/**
 * @param {number} count
 * @param {number} most
 */
function ticks(count, most) {
  const step = Math.ceil(count / most)
  return Array.from(
    { length: Math.ceil(count / step) },
    (_, i) => count - 1 - i * step,
  ).toReversed()
}

/** @param {{ plot: import('uplot'), days: readonly number[], series: readonly Series[], tip: HTMLElement }} chart */
function showTip({ plot, days, series, tip }) {
  const { idx, left = -1 } = plot.cursor
  const day = typeof idx === 'number' ? days[idx] : undefined
  tip.hidden = day === undefined || left < 0
  if (tip.hidden || typeof idx !== 'number') return
  tip.replaceChildren(
    h('strong', {}, dateOf(day ?? 0)),
    ...series
      .map(({ name, values }, i) => ({ name, i, value: values[idx] ?? 0 }))
      .filter(({ value }) => value > 0)
      .map(({ name, i, value }) =>
        h(
          'div',
          {},
          h('i', { class: `swatch s${i}` }),
          h('span', {}, name),
          h('b', {}, number(value)),
        ),
      ),
  )
  const width = plot.over.clientWidth
  const x = left > width / 2 ? left - tip.offsetWidth - 12 : left + 12
  tip.style.transform = `translate(${Math.max(0, Math.min(x, width - tip.offsetWidth))}px, 4px)`
}
