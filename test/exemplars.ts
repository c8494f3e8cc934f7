// The newest request of several processes, through prom-client's own joining.

import t from 'tap'
import { createMetrics, joinMetrics, joinedText } from '../src/metrics.ts'
import type { MetricsJson } from '../src/metrics.ts'
import { until } from './fixtures/until.ts'

const route = { route: '/v1/chat' }
const bucket = 'tollgate_http_request_duration_seconds_bucket{le="0.25",route="/v1/chat"}'
/** The line of the bucket, without the time of its exemplar. */
const lineOf = (text: string) =>
  text
    .split('\n')
    .find((line) => line.startsWith(bucket))
    ?.replace(/ [\d.]+$/, '')

t.test('of several processes, the newest request is named', async (t) => {
  const [one, other] = [createMetrics('1'), createMetrics('1')]
  const parts: MetricsJson[] = []
  other.httpDuration.observe(route, { value: 0.2, ids: { request_id: 'req_old' } })
  parts.push(await other.json())
  const since = Date.now()
  await until(() => Date.now() > since)
  one.httpDuration.observe(route, { value: 0.2, ids: { request_id: 'req_new' } })
  parts.push(await one.json())
  const named = `${bucket} 2 # {request_id="req_new"} 0.2`
  // As they come from another process.
  for (const all of [parts, parts.toReversed()]) {
    const sent = JSON.parse(JSON.stringify(all)) as MetricsJson[]
    t.equal(lineOf(await joinedText(sent, 'openmetrics')), named)
    const joined = await joinMetrics(sent)
    t.equal(lineOf(await joinedText([joined], 'openmetrics')), named, 'of those that ended')
  }
})
