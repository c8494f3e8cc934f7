// `npm run dashboard:picture`: docs/images/dashboard.svg, a picture of config/grafana/dashboard.json. It is drawn here, not
// by Grafana, from the dashboard's own places, titles and queries, which a real Prometheus answers about a gateway under a
// load of some minutes. Prometheus is installed as for the tests.

import { writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { startBusyGateway } from '../test/fixtures/busy-gateway.ts'
import { startPrometheus } from '../test/fixtures/prometheus.ts'
import type { PrometheusServer, Series } from '../test/fixtures/prometheus.ts'
import { readPanels, withWindow } from '../test/fixtures/promql.ts'
import type { Panel } from '../test/fixtures/promql.ts'
import { endOnSignals, withTeardown } from './ending.ts'

const file = resolve(import.meta.dirname, '../docs/images/dashboard.svg')
const loadSeconds = 150
/** Of a cell of Grafana's grid. */
const [cellWidth, cellHeight, gap] = [50, 28, 6]
const shownLegends = 5
const colours = ['#73bf69', '#f2cc0c', '#5794f2', '#ff780a', '#f2495c', '#b877d9', '#8ab8ff']

interface Line {
  readonly label: string
  readonly points: readonly (readonly [number, number])[]
}

endOnSignals()
await withTeardown(async (t) => {
  const gateway = await startBusyGateway(t)
  const prometheus = await startPrometheus(t, [gateway.adminUrl])
  const begunMs = Date.now()
  const secondsPast = () => (Date.now() - begunMs) / 1000
  while (secondsPast() < loadSeconds) {
    await gateway.work()
    // More and less work, as the hours of a day bring it.
    await pause(300 + 250 * Math.sin(secondsPast() / 15))
  }
  const panels = await readPanels()
  const drawn = await Promise.all(panels.map((panel) => drawPanel(panel, prometheus)))
  const bottom = Math.max(...panels.map(({ gridPos: { y, h } }) => y + h))
  await writeFile(file, picture(drawn, bottom * cellHeight))
})
console.log(`${file} written`)

function picture(drawn: readonly string[], height: number): string {
  const size = `viewBox="0 0 ${24 * cellWidth} ${height}"`
  const style = 'font-family="sans-serif" font-size="11" fill="#ccccdc"'
  const title =
    '<title>The dashboard of config/grafana, drawn by scripts/dashboard-picture.ts</title>'
  const ground = `<rect width="100%" height="100%" fill="#111217"/>`
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} ${style}>\n${title}\n${ground}\n${drawn.join('\n')}\n</svg>\n`
}

async function drawPanel(panel: Panel, prometheus: PrometheusServer): Promise<string> {
  const { x, y, w, h } = panel.gridPos
  const [width, height] = [w * cellWidth - gap, h * cellHeight - gap]
  const place = `<g transform="translate(${x * cellWidth + gap / 2} ${y * cellHeight + gap / 2})">`
  if (panel.type === 'row') {
    return `${place}${words(panel.title, 4, 16, 'font-size="14" font-weight="bold"')}</g>`
  }
  const lines = await linesOf(panel, prometheus)
  const box = `<rect width="${width}" height="${height}" rx="3" fill="#181b1f"/>`
  const inner = panel.type === 'stat' ? stat(panel, lines) : graph(panel, { lines, width, height })
  return `${place}${box}${words(panel.title, 8, 17, 'font-size="12"')}${inner}</g>`
}

async function linesOf({ targets = [] }: Panel, prometheus: PrometheusServer) {
  const found = await Promise.all(
    targets.map(async ({ expr, legendFormat }) => {
      const series = await prometheus.range(withWindow(expr, '20s'), loadSeconds - 20)
      return series.map((one) => lineOf(one, legendFormat))
    }),
  )
  return found.flat().filter(({ points }) => points.length > 0)
}

function lineOf({ metric, values }: Series, legend: string): Line {
  const label = legend.replace(/\{\{(\w+)\}\}/g, (_, name: string) =>
    name === 'instance' ? 'gateway1:9090' : (metric[name] ?? ''),
  )
  const points = values.map(([at, value]) => [at, Number(value)] as const)
  return { label, points: points.filter(([, value]) => Number.isFinite(value)) }
}

function stat(panel: Panel, lines: readonly Line[]): string {
  const last = lines[0]?.points.at(-1)?.[1] ?? 0
  const colour = `font-size="26" style="fill:${colours[0]}"`
  return words(format(last, panel.fieldConfig?.defaults.unit), 8, 64, colour)
}

interface Frame {
  readonly lines: readonly Line[]
  readonly width: number
  readonly height: number
}

function graph(panel: Panel, { lines, width, height }: Frame): string {
  const { unit, max } = panel.fieldConfig?.defaults ?? {}
  const [left, right, top] = [52, width - 10, 30]
  const bottom = height - 16 - 14 * Math.min(lines.length, shownLegends)
  const all = lines.flatMap(({ points }) => points)
  const [from, to] = [Math.min(...all.map(([at]) => at)), Math.max(...all.map(([at]) => at))]
  const most = (max ?? Math.max(...all.map(([, value]) => value))) || 1
  const least = Math.min(0, ...all.map(([, value]) => value))
  const at = ([second, value]: readonly [number, number]) => {
    const px = left + ((second - from) / (to - from || 1)) * (right - left)
    const py = bottom - ((value - least) / (most - least)) * (bottom - top)
    return `${px.toFixed(0)},${py.toFixed(1)}`
  }
  const axis = `<path d="M${left} ${top}V${bottom}H${right}" fill="none" stroke="#34363d"/>`
  const ends = [words(format(most, unit), 6, top + 8), words(format(least, unit), 6, bottom)]
  const drawn = lines.map(({ label, points }, i) => {
    const colour = colours[i % colours.length] ?? ''
    const line = `<polyline points="${points.map(at).join(' ')}" fill="none" stroke="${colour}" stroke-width="1.5"/>`
    const y = bottom + 16 + 14 * i
    return i < shownLegends ? line + words(`━ ${label}`, 8, y, `style="fill:${colour}"`) : line
  })
  return [axis, ...ends, ...drawn].join('')
}

function words(text: string, x: number, y: number, more = ''): string {
  const safe = text.replace(/[&<]/g, (one) => (one === '&' ? '&amp;' : '&lt;'))
  return `<text x="${x}" y="${y}" ${more}>${safe}</text>`
}

function format(value: number, unit = 'short'): string {
  if (unit === 'percentunit') return `${(value * 100).toPrecision(2)} %`
  if (unit === 's') return `${Number((value * 1000).toPrecision(2))} ms`
  const suffix = { bytes: 'B', Bps: 'B/s', reqps: '/s', ops: '/s' }[unit] ?? ''
  const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 2 })
  return short.format(value) + suffix
}
