// The rules of config/prometheus, by promtool: they are sound, all alerts are quiet in two hours of normal load, and all that
// rules and tests name is exported by a gateway. That each alert fires is in the files caused-….ts beside this one.

import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { errorTable } from '../../src/error-table.ts'
import { startBackend } from '../fixtures/backend.ts'
import { startBusyGateway } from '../fixtures/busy-gateway.ts'
import { callerOf } from '../fixtures/files-http.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { ask, outputOnly } from '../fixtures/money.ts'
import { runProcess } from '../fixtures/process.ts'
import { ensurePrometheus, prometheusFolder } from '../fixtures/prometheus.ts'
import { metricsIn, readPanels, readRules } from '../fixtures/promql.ts'
import { isQuiet, scrape, seriesOf } from '../fixtures/scrapes.ts'
import { eventually } from '../fixtures/until.ts'

const minutes = 120
const here = 'job="tollgate",instance="a:9090"'

const steady = (value: number) => `${value}x${minutes}`
const rising = (perMinute: number) => `0+${perMinute}x${minutes}`
/** Present for a minute of three, as what comes and goes. */
const blinking = Array.from({ length: minutes / 3 }, () => '0 0 2').join(' ')

const rejected = (code: string) => `tollgate_rejections_total{code="${code}",${here}}`
const attempts = (outcome: string) =>
  `tollgate_upstream_requests_total{model="m",target="1",outcome="${outcome}",${here}}`
const answers = (status: number) =>
  `tollgate_http_requests_total{route="/v1/chat",method="POST",status="${status}",${here}}`
const settled = (basis: string) => `tollgate_settlements_total{basis="${basis}",${here}}`
const ofModel = (name: string) => `${name}{model="m",${here}}`
const plain = (name: string) => `${name}{${here}}`
const firstToken = (le: string) =>
  `tollgate_upstream_first_token_seconds_bucket{model="m",le="${le}",${here}}`
const redisScript = (le: string) =>
  `tollgate_redis_command_seconds_bucket{script="admit",le="${le}",${here}}`
const storeRead = (le: string) => `tollgate_store_seconds_bucket{op="read",le="${le}",${here}}`
const targetUp = (target: string) => `tollgate_target_up{model="m",target="${target}",${here}}`
const hookErrors = `tollgate_hook_errors_total{plugin="failing",${here}}`

/** A gateway on an ordinary day: ten requests a second, one in a thousand fails, some clients leave. */
const normal: Readonly<Record<string, string>> = {
  [`up{${here}}`]: steady(1),
  [answers(200)]: rising(600),
  [answers(401)]: rising(2),
  [answers(502)]: rising(1),
  [`tollgate_http_requests_total{route="/readyz",method="GET",status="503",${here}}`]: rising(60),
  [attempts('complete')]: rising(540),
  [attempts('aborted')]: rising(60),
  [attempts('failed')]: rising(5),
  [attempts('rate_limited')]: rising(5),
  [rejected('invalid_api_key')]: rising(2),
  [rejected('ledger_unavailable')]: rising(0),
  [rejected('storage_unavailable')]: rising(0),
  [rejected('overloaded')]: rising(1),
  [rejected('upstream_auth_error')]: rising(0),
  [rejected('invalid_admin_token')]: rising(0),
  [settled('reported')]: rising(540),
  [settled('counted')]: rising(60),
  [ofModel('tollgate_charged_tokens_total')]: rising(60_000),
  [ofModel('tollgate_waived_tokens_total')]: rising(0),
  [ofModel('tollgate_cost_tokens_total')]: rising(20_000),
  [firstToken('1')]: rising(590),
  [firstToken('30')]: rising(600),
  [firstToken('60')]: rising(600),
  [firstToken('+Inf')]: rising(600),
  [redisScript('0.01')]: rising(1195),
  [redisScript('0.25')]: rising(1200),
  [redisScript('+Inf')]: rising(1200),
  [storeRead('0.1')]: rising(20),
  [storeRead('10')]: rising(20),
  [storeRead('+Inf')]: rising(20),
  [targetUp('1')]: steady(1),
  [targetUp('2')]: steady(1),
  [ofModel('tollgate_target_queue')]: blinking,
  [hookErrors]: rising(0),
  [plain('process_start_time_seconds')]: steady(1_700_000_000),
  [plain('process_open_fds')]: steady(300),
  [plain('process_max_fds')]: steady(1024),
  [plain('nodejs_eventloop_lag_p99_seconds')]: steady(0.02),
  [plain('tollgate_config_reload_ok')]: steady(1),
  [plain('tollgate_log_lines_dropped_total')]: rising(0),
  [plain('tollgate_log_waiting_bytes')]: blinking,
  [plain('tollgate_redis_up')]: steady(1),
  [plain('tollgate_ledger_writes_open')]: blinking,
  [plain('tollgate_spool_unwritten_entries')]: steady(0),
  [plain('tollgate_late_settlements_total')]: rising(0),
  [plain('tollgate_holds_reaped_total')]: rising(0),
  [plain('tollgate_owed_tokens')]: rising(10),
  [plain('tollgate_implausible_tokens_total')]: rising(0),
}

const seriesIn = (of: Readonly<Record<string, string>>) =>
  Object.entries(of).map(([series, values]) => ({ series, values }))

const rules = await readRules()
const alerts = rules.flatMap(({ alert }) => alert ?? [])
await ensurePrometheus()

t.test('promtool accepts configuration and rules', async (t) => {
  for (const [kind, file, ...more] of [
    ['config', 'prometheus.yml'],
    ['rules', 'rules.yml', '--lint=all', '--lint-fatal'],
  ] as const) {
    const words = ['promtool', 'check', kind, ...more, join(prometheusFolder, file)]
    const { code, out, err } = await runProcess(t, words)
    t.equal(code, 0, out + err)
  }
})

t.test(
  'each alert is caused in a test, has a severity, words, and a heading of the runbook',
  async (t) => {
    const files = (await readdir(import.meta.dirname)).filter((name) => name.startsWith('caused-'))
    const texts = files.map((name) => readFile(join(import.meta.dirname, name), 'utf8'))
    const caused = (await Promise.all(texts)).join('').matchAll(/fires\(t, '(\w+)'/g)
    t.strictSame([...new Set([...caused].map(([, name]) => name))].toSorted(), alerts.toSorted())
    const runbook = await readFile(new URL('../../docs/runbook.md', import.meta.url), 'utf8')
    const headings = [...runbook.matchAll(/^#+ (.+)$/gm)].map(([, one = '']) => one)
    t.strictSame(
      headings.filter((one) => one.startsWith('Tollgate')).toSorted(),
      alerts.toSorted(),
      'no heading is of an alert that is gone',
    )
    for (const { alert, labels, annotations } of rules) {
      if (alert === undefined) continue
      t.match(labels, { severity: /^(critical|warning)$/ }, alert)
      t.match(annotations, { summary: /\S/, description: /\S/ }, alert)
      t.equal(annotations?.['runbook_url'], `docs/runbook.md#${alert.toLowerCase()}`)
    }
  },
)

t.test('two hours of normal load, ten requests a second: no alert', async (t) => {
  await isQuiet(t, 'normal load', seriesIn(normal))
})

t.test('a gateway that Prometheus sees for the first time: no alert about what was', async (t) => {
  const was = {
    [plain('process_start_time_seconds')]: steady(-7 * 24 * 3600),
    [plain('tollgate_late_settlements_total')]: steady(3),
    [plain('tollgate_holds_reaped_total')]: steady(3),
    [rejected('upstream_auth_error')]: steady(3),
    [hookErrors]: steady(3),
  }
  await isQuiet(t, 'what was before', seriesIn({ ...normal, ...was }))
})

t.test('two hours of what a real gateway has done: no alert', async (t) => {
  const backend = await startBackend(t)
  const gateway = await startGateway(t, { yaml: outputOnly(backend.url) })
  const { key } = await gateway.account(1_000_000)
  const caller = await callerOf(gateway, key)
  const work = async () => {
    for (let i = 0; i < 20; i++) {
      await (await gateway.call('/v1/chat', key, ask(20, i % 2 === 0))).text()
    }
    const { id } = await caller.make({ content: 'a file' })
    await (await caller.call(`GET /${id}`)).text()
    await (await gateway.call('/v1/models', 'nobody')).text()
  }
  /** Without a pause of the machine, which would be an alert rightly. */
  const worked = () =>
    eventually(async () => {
      await work()
      const now = await scrape(gateway)
      const [, lag = 0] = [...now].find(([name]) => name.startsWith('nodejs_eventloop_lag')) ?? []
      return lag < 0.2 ? now : undefined
    })
  const before = await worked()
  const series = seriesOf({ before, after: [await worked()], goesOn: true })
  t.ok(series.length > 100, `${series.length} series`)
  await isQuiet(t, 'what a gateway has done', series)
})

t.test('rules, dashboard and tests name what a gateway exports', async (t) => {
  const gateway = await startBusyGateway(t)
  await gateway.work()
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text()
  const exported = new Set(
    [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name = '', type]) =>
      type === 'histogram' || type === 'summary'
        ? [`${name}_bucket`, `${name}_sum`, `${name}_count`]
        : [name],
    ),
  )
  const recorded = rules.flatMap(({ record }) => record ?? [])
  const panels = await readPanels()
  const exprs = [...rules, ...panels.flatMap(({ targets = [] }) => targets)].map(({ expr }) => expr)
  const named = new Set(exprs.flatMap(metricsIn))
  t.ok(named.size > 40, `${named.size} names`)
  t.strictSame(
    [...named].filter((name) => !exported.has(name) && !recorded.includes(name)),
    [],
  )
  const codes = exprs.flatMap((expr) => [...expr.matchAll(/code=~?"([^"]+)"/g)])
  for (const [, list = ''] of codes) {
    for (const code of list.split('|')) t.ok(Object.hasOwn(errorTable, code), code)
  }
  const labelsOf = (labels = '') =>
    [...labels.matchAll(/(\w+)="/g)]
      .map(([, name = '']) => name)
      .filter((name) => !['job', 'instance'].includes(name))
      .toSorted()
      .join()
  const samples = new Set(
    text.split('\n').map((line) => {
      const [, name, labels] = /^(\w+)(?:\{(.*)\})? /.exec(line) ?? []
      return `${name} ${labelsOf(labels)}`
    }),
  )
  const simulated = Object.keys(normal).filter((series) => !series.startsWith('up{'))
  for (const series of simulated) {
    const [name, labels] = series.split('{')
    t.ok(samples.has(`${name} ${labelsOf(labels)}`), `a gateway has ${series}`)
  }
})
