// Every metric of the gateway, declared once with its help text (docs/operating.md#metrics). Labels are bounded: never
// a key, an account, a session, or a model name that is not configured. Exemplars name requests.

import {
  AggregatorRegistry,
  Counter,
  Gauge,
  Histogram,
  Registry,
  collectDefaultMetrics,
} from 'prom-client'
import type { Aggregator } from 'prom-client'
import { addExemplars } from './exemplars.ts'
import { mostFiles, openFiles } from './open-files.ts'

/**
 * The formats that a scrape may ask for. Only OpenMetrics has exemplars: each bucket of a histogram shows the newest
 * request whose value fell into this bucket and into no smaller one.
 */
export type MetricsFormat = 'text' | 'openmetrics'

export const contentTypes = {
  text: Registry.PROMETHEUS_CONTENT_TYPE,
  openmetrics: Registry.OPENMETRICS_CONTENT_TYPE,
} as const

const seconds = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600,
  1800,
]

type Observation = { readonly value: number; readonly ids: Record<string, string> }

export type Metrics = ReturnType<typeof createMetrics>

export function createMetrics(version: string) {
  const registry = new Registry<typeof contentTypes.openmetrics>()
  // Histograms take exemplars only if their registry is for OpenMetrics. At the end of this function the registry
  // becomes one for text: made into OpenMetrics here, its counters would get other names.
  registry.setContentType(contentTypes.openmetrics)
  const registers = [registry]
  const counter = <L extends string>(name: string, help: string, ...labelNames: L[]) =>
    new Counter({ name: `tollgate_${name}`, help, labelNames, registers })
  const gauge = <L extends string>(name: string, help: string, ...labelNames: L[]) =>
    new Gauge({ name: `tollgate_${name}`, help, labelNames, registers })
  /** Of several processes, the least or the largest is shown, not the sum. */
  const state = <L extends string>(
    name: string,
    aggregator: Aggregator,
    help: string,
    ...labelNames: L[]
  ) => new Gauge({ name: `tollgate_${name}`, help, labelNames, registers, aggregator })
  const histogram = <L extends string>(name: string, help: string, ...labelNames: L[]) =>
    new Histogram({ name: `tollgate_${name}`, help, labelNames, registers, buckets: seconds })
  const ofRequests = <L extends string>(name: string, help: string, ...labelNames: L[]) => {
    const rest = { help, labelNames, registers, buckets: seconds, enableExemplars: true }
    const histogram = new Histogram<string>({ name: `tollgate_${name}`, ...rest })
    return {
      /** `ids` lead from a graph to the request's line in the log. */
      observe(labels: Readonly<Record<L, string>>, { value, ids }: Observation) {
        histogram.observe({ labels, value, exemplarLabels: ids })
      },
    }
  }

  const buildInfo = state('build_info', 'max', 'Always 1; the version is the label.', 'version')
  buildInfo.set({ version }, 1)
  collectNodeMetrics(registry)
  const metrics = {
    httpRequests: counter(
      'http_requests_total',
      'Answers by route, method and status.',
      'route',
      'method',
      'status',
    ),
    httpDuration: ofRequests(
      'http_request_duration_seconds',
      'Arrival to the end of the work.',
      'route',
    ),
    overhead: histogram('overhead_seconds', 'Arrival to the backend request sent.'),
    rejections: counter('rejections_total', 'Requests refused, by error code.', 'code'),
    wouldRefuse: counter(
      'would_refuse_total',
      'Requests that shadow mode has served and that limits or balances would have refused or cut, by error code.',
      'code',
    ),
    upstreamRequests: counter(
      'upstream_requests_total',
      'Attempts at a target.',
      'model',
      'target',
      'outcome',
    ),
    firstToken: ofRequests(
      'upstream_first_token_seconds',
      'Backend request sent to its first content.',
      'model',
    ),
    interToken: histogram(
      'upstream_inter_token_seconds',
      'Mean time between events of a stream.',
      'model',
    ),
    flushes: counter(
      'flushes_total',
      'Pieces in which streams were handed on, counted at their ends; with `flush`, a piece has several events.',
    ),
    upstreamDuration: ofRequests(
      'upstream_duration_seconds',
      'Backend request sent to its end.',
      'model',
    ),
    upstreamAborted: counter(
      'upstream_aborted_total',
      'Backend requests whose client left or cancelled.',
    ),
    targetUp: state(
      'target_up',
      'min',
      '1 while the target may be asked, 0 while its breaker is open, it fails its health checks or it loads its model.',
      'model',
      'target',
    ),
    targetQueue: gauge('target_queue', 'Requests that wait until a target has room.', 'model'),
    tokens: counter('tokens_total', 'Model tokens settled.', 'model', 'kind'),
    charged: counter('charged_tokens_total', 'Balance tokens charged: paid or owed.', 'model'),
    waived: counter('waived_tokens_total', 'Balance tokens that shadow mode waived.', 'model'),
    cost: counter(
      'cost_tokens_total',
      "What settled tokens cost the operator, by the model's cost, in balance tokens.",
      'model',
    ),
    settlements: counter(
      'settlements_total',
      'Settlements by where their usage came from.',
      'basis',
    ),
    owed: gauge('owed_tokens', 'Balance tokens that all accounts owe, read once a minute.'),
    balance: gauge(
      'balance_tokens',
      'Balance tokens that all accounts have, what is held included, read once an hour.',
    ),
    lowAccounts: gauge(
      'accounts_low',
      'Active accounts with fewer balance tokens, less what is held, than plugins.account.low_balance, counted once an hour.',
    ),
    implausible: counter(
      'implausible_tokens_total',
      'Balance tokens that backends reported beyond what a request can have used; not charged.',
    ),
    lateSettlements: counter(
      'late_settlements_total',
      'Settlements older than a day that found no hold.',
    ),
    holdsOpen: gauge('holds_open', 'Holds of this process that are not settled.'),
    holdsReaped: counter('holds_reaped_total', 'Expired holds charged by their last checkpoint.'),
    writesOpen: gauge(
      'ledger_writes_open',
      'Settlements and credits that Redis has not confirmed yet.',
    ),
    spoolEntries: gauge(
      'spool_entries',
      'Ledger writes on disk: those that Redis has not confirmed, and each credit for 30 s.',
    ),
    spoolUnwritten: gauge(
      'spool_unwritten_entries',
      'Ledger writes that wait in memory because the disk refuses them.',
    ),
    logLinesDropped: counter(
      'log_lines_dropped_total',
      'Log lines dropped because stdout was not read in time.',
    ),
    logWaiting: gauge('log_waiting_bytes', 'Bytes of log that stdout has not taken yet.'),
    streamsOpen: gauge('streams_open', 'Streams being written.', 'kind'),
    readersDropped: counter(
      'readers_dropped_total',
      'Clients disconnected because they did not read their answer.',
    ),
    hookErrors: counter(
      'hook_errors_total',
      'Plugin hooks whose failure did not change the answer.',
      'plugin',
    ),
    sessionsSlept: counter('sessions_slept_total', 'Sessions whose messages went into the store.'),
    sessionsWoken: counter(
      'sessions_woken_total',
      'Sessions whose messages came back from the store.',
    ),
    uploadBytes: counter('upload_bytes_total', 'Bytes of files taken from clients.'),
    downloadBytes: counter('download_bytes_total', 'Bytes of files handed to clients.'),
    configReloadOk: state(
      'config_reload_ok',
      'min',
      '1 when the newest configuration was taken over, 0 while an older one runs because the file has problems.',
    ),
    redisUp: state('redis_up', 'min', '1 while Redis answers.'),
    storeSeconds: histogram(
      'store_seconds',
      'Duration of calls of the file store; of a read, until it opens.',
      'op',
    ),
    redisSeconds: histogram('redis_command_seconds', 'Round trip of scripts.', 'script'),
    /** What a scrape gets. */
    text: async (format: MetricsFormat = 'text') =>
      format === 'text'
        ? await registry.metrics()
        : await joinedText([await registry.getMetricsAsJSON()], format),
    /** For `joinedText`. */
    json: (): Promise<MetricsJson> => registry.getMetricsAsJSON(),
  }
  // Missing until they are read: a 0 would say that nobody owes or has anything.
  for (const sum of [metrics.owed, metrics.balance, metrics.lowAccounts]) sum.remove()
  ;(registry as AnyRegistry).setContentType(contentTypes.text)
  return metrics
}

/** All metrics of a process, as it can send them to another. */
export type MetricsJson = Awaited<ReturnType<Registry['getMetricsAsJSON']>>

/** Joins the metrics of several processes: sums, except for gauges whose sum would mean nothing. */
export async function joinMetrics(parts: readonly MetricsJson[]): Promise<MetricsJson> {
  const joined = await AggregatorRegistry.aggregate([...parts]).getMetricsAsJSON()
  addExemplars(joined, parts)
  return joined
}

/** A registry for either format: prom-client's types allow a registry only one. */
type AnyRegistry = Pick<
  Registry,
  'getMetricsAsJSON' | 'metrics' | 'getSingleMetric' | 'removeSingleMetric'
> & {
  setContentType(type: string): void
}

export async function joinedText(
  parts: readonly MetricsJson[],
  format: MetricsFormat,
): Promise<string> {
  if (format === 'text') return await AggregatorRegistry.aggregate([...parts]).metrics()
  const registry: AnyRegistry = AggregatorRegistry.aggregate(parts.map(withBareNames))
  registry.setContentType(contentTypes.openmetrics)
  // These are the registry's own objects, and not copies.
  addExemplars(await registry.getMetricsAsJSON(), parts)
  return await registry.metrics()
}

/** In OpenMetrics, prom-client adds `_total` to all names of joined counters. */
function withBareNames(metrics: MetricsJson): MetricsJson {
  return metrics.map((metric) =>
    String(metric.type) === 'counter'
      ? { ...metric, name: metric.name.replace(/_total$/, '') }
      : metric,
  )
}

/** What stays true of a process that has ended: what it counted. */
export function lastingMetrics(metrics: MetricsJson): MetricsJson {
  return metrics.filter(({ type }) => ['counter', 'histogram'].includes(String(type)))
}

// Of several processes the largest value is shown: the last start, the longest lag, the most files. A sum or a mean would
// hide one process that fails beside others that do not.
const ofOneProcess = [
  'process_start_time_seconds',
  'process_open_fds',
  'process_max_fds',
  'nodejs_eventloop_lag_p99_seconds',
]

/**
 * Node's own metrics, without the gauges that prom-client names `_total`: promtool rejects those. prom-client would read the
 * limit of files once, and when all are open, it would go on showing how many were open before.
 */
function collectNodeMetrics(registry: AnyRegistry): void {
  collectDefaultMetrics({ register: registry as Registry })
  for (const name of [
    'nodejs_active_handles',
    'nodejs_active_requests',
    'nodejs_active_resources',
  ]) {
    registry.removeSingleMetric(`${name}_total`)
  }
  for (const name of ofOneProcess) {
    Object.assign(registry.getSingleMetric(name) ?? {}, { aggregator: 'max' })
  }
  for (const [name, read] of [
    ['process_open_fds', openFiles],
    ['process_max_fds', mostFiles],
  ] as const) {
    Object.assign(registry.getSingleMetric(name) ?? {}, {
      collect(this: Gauge) {
        const value = read()
        if (value !== undefined) this.set(value)
      },
    })
  }
}
