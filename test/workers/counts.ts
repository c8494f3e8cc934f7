// With processes: test/chaos/workers.ts. Here: what has ended is still counted.

import t from 'tap'
import { createMetrics } from '../../src/metrics.ts'
import { Counts } from '../../src/workers/counts.ts'
import type { Counted } from '../../src/workers/counts.ts'

function worker(requests: number) {
  const metrics = createMetrics('test')
  metrics.rejections.inc({ code: 'x' }, requests)
  metrics.holdsOpen.set(requests)
  metrics.redisUp.set(1)
  metrics.redisSeconds.observe({ script: 's' }, 0.1)
  return metrics
}

t.test('counters and histograms of workers that ended stay, their gauges go', async (t) => {
  const counts = new Counts()
  const living = worker(5)
  const fleet = { serving: [{ channel: { ask: async () => living.json() }, metrics: undefined }] }
  const own = worker(1)
  for (const requests of [10, 20]) await counts.keep({ metrics: await worker(requests).json() })
  await counts.keep({ metrics: undefined })
  const text = await counts.text(fleet, { own })
  t.match(text, '\ntollgate_rejections_total{code="x"} 36\n')
  t.match(text, '\ntollgate_holds_open 6\n')
  t.match(text, '\ntollgate_redis_up 1\n')
  t.match(text, '\ntollgate_redis_command_seconds_count{script="s"} 4\n')
  t.match(text, '\ntollgate_build_info{version="test"} 1\n')
  t.match(fleet.serving[0]?.metrics, [{ name: String }])
})

t.test('files, lag and start are those of the process that has most of them', async (t) => {
  const one = await worker(1).json()
  const more = one.map((metric) => ({
    ...metric,
    values: metric.values.map((sample) => ({ ...sample, value: 5_000_000_000 })),
  }))
  const fleet = { serving: [{ channel: { ask: async () => more }, metrics: undefined }] }
  const text = await new Counts().text(fleet, { own: worker(1) })
  for (const name of [
    'process_start_time_seconds',
    'process_open_fds',
    'process_max_fds',
    'nodejs_eventloop_lag_p99_seconds',
  ]) {
    t.match(text, `\n${name} 5000000000\n`)
  }
})

t.test('a worker that does not answer is counted as it last told', async (t) => {
  const ask = async () => Promise.reject(new Error('gone'))
  const silent = { channel: { ask }, metrics: undefined }
  const hangs = { channel: { ask }, metrics: await worker(5).json() }
  const fleet = { serving: [silent, hangs] }
  t.match(
    await new Counts().text(fleet, { own: worker(1) }),
    '\ntollgate_rejections_total{code="x"} 6\n',
  )
})

t.test('a worker that ends while another one is asked is counted once', async (t) => {
  const counts = new Counts()
  const metrics = await worker(5).json()
  const ends = { channel: { ask: async () => metrics }, metrics: undefined }
  const fleet = { serving: [ends] as Counted[] }
  const ask = async () => {
    fleet.serving.shift()
    await counts.keep({ metrics })
    return worker(10).json()
  }
  fleet.serving.push({ channel: { ask }, metrics: undefined })
  t.match(
    await counts.text(fleet, { own: worker(1) }),
    '\ntollgate_rejections_total{code="x"} 16\n',
  )
})
