import t from 'tap'
import { createMetrics } from '../src/metrics.ts'

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
    metrics.upstreamDuration.observe({ model: 'm' }, 1799)
    const text = await metrics.text()
    t.match(text, /^tollgate_overhead_seconds_bucket\{le="0\.0005"\} 1$/m)
    t.match(text, /^tollgate_upstream_duration_seconds_bucket\{le="1800",model="m"\} 1$/m)
    t.match(text, /^tollgate_upstream_duration_seconds_bucket\{le="600",model="m"\} 0$/m)
  },
)
