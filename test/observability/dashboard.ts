// The dashboard of config/grafana: each query of it returns data of a gateway that a real Prometheus scrapes.

import t from 'tap'
import { startBusyGateway } from '../fixtures/busy-gateway.ts'
import { startPrometheus } from '../fixtures/prometheus.ts'
import { readPanels, withWindow } from '../fixtures/promql.ts'
import { eventually } from '../fixtures/until.ts'

const panels = await readPanels()
const shown = panels.filter(({ type }) => type !== 'row')

t.test('each panel says what it shows, in which unit, and no two lie on each other', async (t) => {
  for (const { title, description, fieldConfig } of shown) {
    t.match(description, /\w+ .*\.$/, title)
    t.match(fieldConfig?.defaults.unit, /^\w+$/, title)
  }
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, i) => `${x + (i % w)} ${y + Math.floor(i / w)}`),
  )
  t.equal(new Set(cells).size, cells.length)
  const beyond = panels.filter(({ gridPos: { x, w } }) => x + w > 24)
  t.strictSame(beyond, [])
})

t.test('each query returns numbers of a gateway that works', async (t) => {
  const gateway = await startBusyGateway(t)
  const prometheus = await startPrometheus(t, [gateway.adminUrl])
  const queries = shown.flatMap(({ targets = [] }) => targets)
  t.ok(queries.length >= 40)
  // A rate needs two scrapes, with work between them.
  await gateway.work()
  for (const { expr, legendFormat } of queries) {
    const found = await eventually(async () => {
      const series = await prometheus.range(withWindow(expr, '10s'), 10)
      const isNumber = series.some(({ values }) => values.some(([, value]) => isFinite(+value)))
      if (!isNumber) await gateway.work()
      return isNumber ? series : undefined
    }).catch(() => [])
    t.ok(found.length > 0, expr)
    const labels = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, name = '']) => name)
    for (const label of labels) {
      t.ok(
        found.every(({ metric }) => metric[label]),
        `${expr} has ${label}`,
      )
    }
  }
})

t.test('a point of a graph leads to the line of a request in the log', async (t) => {
  const gateway = await startBusyGateway(t)
  const prometheus = await startPrometheus(t, [gateway.adminUrl])
  for (const graph of [
    'tollgate_http_request_duration_seconds_bucket{route="/v1/chat"}',
    'tollgate_upstream_first_token_seconds_bucket{model="small"}',
    'tollgate_upstream_duration_seconds_bucket{model="small"}',
  ]) {
    const [found] = await eventually(async () => {
      await gateway.work()
      const all = await prometheus.exemplars(graph, 60)
      return all.length > 0 ? all : undefined
    })
    const { request_id } = found?.labels ?? {}
    const line = gateway.log.find((one) => one.includes(`"request_id":"${request_id}"`)) ?? '{}'
    t.match(JSON.parse(line), { request_id, route: '/v1/chat' }, graph)
  }
  t.ok((await prometheus.range('tollgate_http_requests_total{route="/v1/chat"}', 5)).length > 0)
})
