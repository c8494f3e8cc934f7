// The rules of config/prometheus, by promtool: each alert is quiet in an hour of normal load and fires in the fault that
// it is about; and all that rules and tests name is exported by a gateway.

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { errorTable } from '../../src/error-table.ts'
import { startBusyGateway } from '../fixtures/busy-gateway.ts'
import { runProcess } from '../fixtures/process.ts'
import { ensurePrometheus, prometheusFolder } from '../fixtures/prometheus.ts'
import { metricsIn, readPanels, readRules } from '../fixtures/promql.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

/** Minutes. The normal hour is followed by a fault of up to two hours. */
const hour = 60
const rest = 120
const here = 'job="tollgate",instance="a:9090"'

type Values = string
const steady = (value: number): Values => `${value}x${hour + rest}`
const rising = (perMinute: number): Values => `0+${perMinute}x${hour + rest}`
/** Steady for the normal hour, and then another value. */
const then = (before: number, after: number): Values => `${before}x${hour} ${after}x${rest}`
/** Rises by `before` a minute for an hour, and then by `after`. */
const faster = (before: number, after: number): Values =>
  `0+${before}x${hour} ${before * hour + after}+${after}x${rest}`
/** A counter with a label, which is not there before it counts. */
const appearing = (value: number): Values => `_x${hour + 1} ${value}x${rest}`
/** Present for a minute of three, as what comes and goes. */
const blinking = Array.from({ length: (hour + rest) / 3 }, () => '0 0 2').join(' ')

const rejected = (code: string) => `tollgate_rejections_total{code="${code}",${here}}`
const attempts = (outcome: string) =>
  `tollgate_upstream_requests_total{model="m",target="1",outcome="${outcome}",${here}}`
const answers = (status: number) =>
  `tollgate_http_requests_total{route="/v1/chat",method="POST",status="${status}",${here}}`
const settled = (basis: string) => `tollgate_settlements_total{basis="${basis}",${here}}`
const charged = `tollgate_charged_tokens_total{model="m",${here}}`
const cost = `tollgate_cost_tokens_total{model="m",${here}}`
const plain = (name: string) => `${name}{${here}}`
const firstToken = (le: string) =>
  `tollgate_upstream_first_token_seconds_bucket{model="m",le="${le}",${here}}`
const redisScript = (le: string) =>
  `tollgate_redis_command_seconds_bucket{script="admit",le="${le}",${here}}`
const storeRead = (le: string) => `tollgate_store_seconds_bucket{op="read",le="${le}",${here}}`
const targetUp = (target: string) => `tollgate_target_up{model="m",target="${target}",${here}}`
const queued = `tollgate_target_queue{model="m",${here}}`
const hookErrors = `tollgate_hook_errors_total{plugin="failing",${here}}`

/** A gateway on an ordinary day: ten requests a second, one in a thousand fails, some clients leave. */
const normal: Readonly<Record<string, Values>> = {
  [`up{${here}}`]: steady(1),
  [answers(200)]: rising(600),
  [answers(401)]: rising(2),
  [answers(502)]: rising(1),
  [`tollgate_http_requests_total{route="/readyz",method="GET",status="503",${here}}`]: rising(60),
  [attempts('complete')]: rising(540),
  [attempts('aborted')]: rising(60),
  [attempts('failed')]: rising(5),
  [rejected('invalid_api_key')]: rising(2),
  [rejected('ledger_unavailable')]: rising(0),
  [rejected('storage_unavailable')]: rising(0),
  [rejected('overloaded')]: rising(1),
  [rejected('upstream_auth_error')]: rising(0),
  [rejected('invalid_admin_token')]: rising(0),
  [settled('reported')]: rising(540),
  [settled('counted')]: rising(60),
  [charged]: rising(60_000),
  [cost]: rising(20_000),
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
  [queued]: blinking,
  [hookErrors]: rising(0),
  [plain('process_start_time_seconds')]: steady(1_700_000_000),
  [plain('process_open_fds')]: steady(300),
  [plain('process_max_fds')]: steady(1024),
  [plain('nodejs_eventloop_lag_p99_seconds')]: steady(0.02),
  [plain('tollgate_config_reload_ok')]: steady(1),
  [plain('tollgate_log_lines_dropped_total')]: rising(0),
  [plain('tollgate_redis_up')]: steady(1),
  [plain('tollgate_ledger_writes_open')]: blinking,
  [plain('tollgate_spool_unwritten_entries')]: steady(0),
  [plain('tollgate_late_settlements_total')]: rising(0),
  [plain('tollgate_holds_reaped_total')]: rising(0),
  [plain('tollgate_owed_tokens')]: rising(10),
  [plain('tollgate_implausible_tokens_total')]: rising(0),
}

interface Fault {
  /** What differs from a normal day, from the second hour on. */
  readonly series: Readonly<Record<string, Values>>
  /** So many minutes after it began the alert must fire. */
  readonly within: number
}

/** For each alert, what it is about. */
const faults: Readonly<Record<string, Fault>> = {
  TollgateDown: { series: { [`up{${here}}`]: then(1, 0) }, within: 3 },
  TollgateErrors: { series: { [answers(502)]: faster(1, 60) }, within: 12 },
  TollgateRestarts: {
    series: {
      [plain('process_start_time_seconds')]: `1x${hour} 2x5 3x5 4x${rest}`,
    },
    within: 15,
  },
  TollgateBusy: {
    series: { [plain('nodejs_eventloop_lag_p99_seconds')]: then(0.02, 0.6) },
    within: 12,
  },
  TollgateFewFiles: { series: { [plain('process_open_fds')]: then(300, 1000) }, within: 7 },
  TollgateReloadRefused: {
    series: { [plain('tollgate_config_reload_ok')]: then(1, 0) },
    within: 7,
  },
  TollgateLogDropped: {
    series: { [plain('tollgate_log_lines_dropped_total')]: faster(0, 10) },
    within: 3,
  },
  TollgateHookFails: { series: { [hookErrors]: appearing(1) }, within: 3 },
  TollgateOverloaded: { series: { [rejected('overloaded')]: faster(1, 30) }, within: 16 },
  TollgateRedisAway: { series: { [plain('tollgate_redis_up')]: then(1, 0) }, within: 3 },
  TollgateLedgerRefuses: { series: { [rejected('ledger_unavailable')]: faster(0, 60) }, within: 5 },
  TollgateRedisSlow: { series: { [redisScript('0.01')]: faster(1195, 600) }, within: 16 },
  TollgateStoreAway: { series: { [rejected('storage_unavailable')]: faster(0, 10) }, within: 8 },
  TollgateStoreSlow: { series: { [storeRead('0.1')]: faster(20, 2) }, within: 26 },
  TollgateWritesWait: {
    series: { [plain('tollgate_ledger_writes_open')]: then(0, 40) },
    within: 12,
  },
  TollgateDiskFull: {
    series: { [plain('tollgate_spool_unwritten_entries')]: then(0, 3) },
    within: 3,
  },
  TollgateLateSettlements: {
    series: { [plain('tollgate_late_settlements_total')]: then(0, 1) },
    within: 2,
  },
  TollgateHoldsReaped: {
    series: { [plain('tollgate_holds_reaped_total')]: then(0, 7) },
    within: 2,
  },
  TollgateDebtsGrow: { series: { [plain('tollgate_owed_tokens')]: faster(10, 5000) }, within: 45 },
  TollgateUsageImplausible: {
    series: { [plain('tollgate_implausible_tokens_total')]: then(0, 900) },
    within: 2,
  },
  TollgateUsageMissing: {
    series: { [settled('reported')]: faster(540, 0), [settled('counted')]: faster(60, 600) },
    within: 45,
  },
  TollgateSoldBelowCost: { series: { [cost]: faster(20_000, 200_000) }, within: 90 },
  TollgateModelDown: {
    series: { [targetUp('1')]: then(1, 0), [targetUp('2')]: then(1, 0) },
    within: 4,
  },
  TollgateTargetDown: { series: { [targetUp('2')]: then(1, 0) }, within: 12 },
  TollgateTargetFails: { series: { [attempts('failed')]: faster(5, 200) }, within: 16 },
  TollgateBackendKeyRefused: {
    series: { [rejected('upstream_auth_error')]: faster(0, 5) },
    within: 5,
  },
  TollgateQueueWaits: { series: { [queued]: then(0, 9) }, within: 16 },
  TollgateFirstTokenLate: {
    series: { [firstToken('1')]: faster(590, 300), [firstToken('30')]: faster(600, 500) },
    within: 22,
  },
  TollgateKeysGuessed: { series: { [rejected('api_key_revoked')]: faster(0, 300) }, within: 22 },
  TollgateAdminTokenGuessed: {
    series: { [rejected('invalid_admin_token')]: appearing(30) },
    within: 5,
  },
}

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

t.test('each alert has a fault, a severity, words, and a heading of the runbook', async (t) => {
  t.strictSame(alerts.toSorted(), Object.keys(faults).toSorted())
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
})

t.test('an hour of normal load and its fault: quiet, then the alert', async (t) => {
  const testOf = ([alert, { series, within }]: readonly [string, Fault]) => ({
    interval: '1m',
    input_series: Object.entries({ ...normal, ...series }).map(([name, values]) => ({
      series: name,
      values,
    })),
    promql_expr_test: [
      { expr: `count_over_time(ALERTS[${hour}m])`, eval_time: `${hour}m`, exp_samples: [] },
      {
        expr: `count by (alertname) (ALERTS{alertname="${alert}",alertstate="firing"})`,
        eval_time: `${hour + within}m`,
        exp_samples: [{ labels: `{alertname="${alert}"}`, value: 1 }],
      },
    ],
  })
  for (const fault of Object.entries(faults)) {
    const dir = await tempDir(t)
    const file = join(dir, 'test.yml')
    const setup = {
      rule_files: [join(prometheusFolder, 'rules.yml')],
      evaluation_interval: '1m',
      tests: [testOf(fault)],
    }
    await writeFile(file, JSON.stringify(setup))
    const { code, out, err } = await runProcess(t, ['promtool', 'test', 'rules', file])
    t.equal(code, 0, `${fault[0]}: ${out}${err}`)
  }
})

t.test('rules, dashboard and tests name what a gateway exports', async (t) => {
  const gateway = await startBusyGateway(t)
  await gateway.work()
  const scrape = await (await fetch(`${gateway.adminUrl}/metrics`)).text()
  const exported = new Set(
    [...scrape.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name = '', type]) =>
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
    scrape.split('\n').map((line) => {
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
