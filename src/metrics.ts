// Every metric of the gateway, declared once with its help text (docs/operating.md#metrics). Labels are bounded: never
// a key, an account, a session, or a model name that is not configured.

import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'

const seconds = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
]

export type Metrics = ReturnType<typeof createMetrics>

export function createMetrics(version: string) {
  const registry = new Registry()
  const registers = [registry]
  const counter = <L extends string>(name: string, help: string, ...labelNames: L[]) =>
    new Counter({ name: `tollgate_${name}`, help, labelNames, registers })
  const gauge = <L extends string>(name: string, help: string, ...labelNames: L[]) =>
    new Gauge({ name: `tollgate_${name}`, help, labelNames, registers })
  const histogram = <L extends string>(name: string, help: string, ...labelNames: L[]) =>
    new Histogram({ name: `tollgate_${name}`, help, labelNames, registers, buckets: seconds })

  const buildInfo = gauge('build_info', 'Always 1; the version is the label.', 'version')
  buildInfo.set({ version }, 1)
  collectNodeMetrics(registry)
  return {
    httpRequests: counter(
      'http_requests_total',
      'Answers by route, method and status.',
      'route',
      'method',
      'status',
    ),
    httpDuration: histogram(
      'http_request_duration_seconds',
      'Arrival to the end of the work.',
      'route',
    ),
    overhead: histogram('overhead_seconds', 'Arrival to the backend request sent.'),
    rejections: counter('rejections_total', 'Requests refused, by error code.', 'code'),
    upstreamRequests: counter(
      'upstream_requests_total',
      'Attempts at a target.',
      'model',
      'target',
      'outcome',
    ),
    firstToken: histogram(
      'upstream_first_token_seconds',
      'Backend request sent to its first content.',
      'model',
    ),
    interToken: histogram(
      'upstream_inter_token_seconds',
      'Mean time between events of a stream.',
      'model',
    ),
    upstreamDuration: histogram(
      'upstream_duration_seconds',
      'Backend request sent to its end.',
      'model',
    ),
    upstreamAborted: counter(
      'upstream_aborted_total',
      'Backend requests that the gateway ended early.',
    ),
    tokens: counter('tokens_total', 'Model tokens settled.', 'model', 'kind'),
    charged: counter('charged_tokens_total', 'Balance tokens charged.', 'model'),
    settlements: counter(
      'settlements_total',
      'Settlements by where their usage came from.',
      'basis',
    ),
    owed: gauge('owed_tokens', 'Balance tokens that all accounts owe, read once a minute.'),
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
    spoolEntries: gauge('spool_entries', 'Ledger writes waiting on disk.'),
    spoolUnwritten: gauge(
      'spool_unwritten_entries',
      'Ledger writes that wait in memory because the disk refuses them.',
    ),
    logLinesDropped: counter(
      'log_lines_dropped_total',
      'Log lines dropped because stdout was not read in time.',
    ),
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
    uploadBytes: counter('upload_bytes_total', 'Bytes of files taken from clients.'),
    downloadBytes: counter('download_bytes_total', 'Bytes of files handed to clients.'),
    redisUp: gauge('redis_up', '1 while Redis answers.'),
    storeSeconds: histogram(
      'store_seconds',
      'Duration of calls of the file store; of a read, until it opens.',
      'op',
    ),
    redisSeconds: histogram('redis_command_seconds', 'Round trip of ledger scripts.', 'script'),
    contentType: registry.contentType,
    /** The text of a scrape. */
    text: () => registry.metrics(),
  }
}

/** Node's own metrics, without the gauges that prom-client names `_total`: promtool rejects those. */
function collectNodeMetrics(registry: Registry): void {
  collectDefaultMetrics({ register: registry })
  for (const name of [
    'nodejs_active_handles',
    'nodejs_active_requests',
    'nodejs_active_resources',
  ]) {
    registry.removeSingleMetric(`${name}_total`)
  }
}
