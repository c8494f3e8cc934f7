import t from 'tap'
import { createMetrics, joinedText } from '../src/metrics.ts'

t.test('each of our metrics has help, a type and our prefix', async (t) => {
  const text = await createMetrics('1.2.3').text()
  t.match(text, /^tollgate_build_info\{version="1\.2\.3"\} 1$/m)
  const types = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = '', type]) => ({
    name,
    type,
  }))
  t.ok(types.length > 20)
  for (const { name } of types) {
    t.match(name, /^(tollgate|nodejs|process)_/)
    t.match(text, new RegExp(`^# HELP ${name} \\S`, 'm'))
  }
})

t.test('_total is a counter and a counter is _total: promtool refuses others', async (t) => {
  const text = await createMetrics('1').text()
  for (const [, name = '', type] of text.matchAll(/^# TYPE (\S+) (\S+)$/gm)) {
    t.equal(name.endsWith('_total'), type === 'counter', name)
  }
})

t.test('a sum over all accounts is missing until it is read', async (t) => {
  const metrics = createMetrics('1')
  const sums = /^tollgate_(owed_tokens|balance_tokens|accounts_low) /m
  t.notMatch(await metrics.text(), sums)
  t.notMatch(await joinedText([await metrics.json()], 'text'), sums)
  metrics.owed.set(7)
  const both = [await metrics.json(), await createMetrics('1').json()]
  t.match(await joinedText(both, 'text'), /^tollgate_owed_tokens 7$/m)
})

t.test('two gateways in one process count for themselves', async (t) => {
  const [one, other] = [createMetrics('1'), createMetrics('1')]
  one.rejections.inc({ code: 'insufficient_balance' })
  const sample = 'tollgate_rejections_total{code="insufficient_balance"} 1'
  t.ok((await one.text()).includes(sample))
  t.notOk((await other.text()).includes(sample))
})

t.test(
  'times are counted in buckets from half a millisecond to the longest generation',
  async (t) => {
    const metrics = createMetrics('1')
    metrics.overhead.observe(0.0004)
    metrics.upstreamDuration.observe({ model: 'm' }, { value: 1799, ids: {} })
    const text = await metrics.text()
    t.match(text, /^tollgate_overhead_seconds_bucket\{le="0\.0005"\} 1$/m)
    t.match(text, /^tollgate_upstream_duration_seconds_bucket\{le="1800",model="m"\} 1$/m)
    t.match(text, /^tollgate_upstream_duration_seconds_bucket\{le="600",model="m"\} 0$/m)
  },
)

const route = { route: '/v1/chat' }
const bucket = (le: string) =>
  `tollgate_http_request_duration_seconds_bucket{le="${le}",route="/v1/chat"}`
/** The line of a bucket, without the time of its exemplar. */
const lineOf = (text: string, le: string) =>
  text
    .split('\n')
    .find((line) => line.startsWith(bucket(le)))
    ?.replace(/ [\d.]+$/, '')

t.test('in OpenMetrics, each bucket names the request that it counted last', async (t) => {
  const metrics = createMetrics('1')
  metrics.httpDuration.observe(route, { value: 0.2, ids: { request_id: 'req_1' } })
  metrics.httpDuration.observe(route, { value: 0.21, ids: { request_id: 'req_2', trace_id: 'f' } })
  metrics.httpDuration.observe(route, { value: 7, ids: { request_id: 'req_3' } })
  const text = await metrics.text('openmetrics')
  t.equal(lineOf(text, '0.25'), `${bucket('0.25')} 2 # {request_id="req_2",trace_id="f"} 0.21`)
  t.equal(lineOf(text, '10'), `${bucket('10')} 3 # {request_id="req_3"} 7`)
  t.match(text, /^# TYPE tollgate_http_requests counter$/m)
  t.ok(text.endsWith('\n# EOF\n'))
  t.notMatch(await metrics.text(), /req_|EOF/)
})

t.test('in OpenMetrics the samples are those of the text', async (t) => {
  const metrics = createMetrics('1')
  metrics.rejections.inc({ code: 'insufficient_balance' }, 3)
  metrics.httpDuration.observe(route, { value: 0.2, ids: { request_id: 'req_1' } })
  const namesIn = (text: string) =>
    text
      .split('\n')
      .filter((line) => /^[a-z]/.test(line))
      .map((line) => line.replace(/ .*/, ''))
  // Twice: making the one must not change the other.
  for (let i = 0; i < 2; i++) {
    const [open, plain] = [await metrics.text('openmetrics'), await metrics.text()]
    t.strictSame(namesIn(open).toSorted(), namesIn(plain).toSorted())
    t.match(open, /^tollgate_rejections_total\{code="insufficient_balance"\} 3$/m)
  }
})
