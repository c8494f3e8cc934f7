// For the operator: /metrics, /healthz and /readyz on the admin listener, and metrics and one log line for every
// exchange. First in the list of plugins, so that its `done` runs last, when all facts are known.

import { noKeys } from '../config/schema.ts'
import type { GatewayError } from '../errors.ts'
import { answering, json } from '../exchange.ts'
import type { Answer, Exchange, Facts, Outcome, Route } from '../exchange.ts'
import { costOf } from '../ledger/price.ts'
import { contentTypes } from '../metrics.ts'
import type { Metrics } from '../metrics.ts'
import type { Condition, Gateway, Plugin } from '../plugin.ts'
import { isOutage } from '../redis/scripts.ts'
import { conditionOf, measureTargets } from '../upkeep.ts'
import { noTokens } from '../tokens/token-counts.ts'

export const ops: Plugin = {
  name: 'ops',
  schema: noKeys.describe(
    'The metrics, `/healthz` and `/readyz` of the admin port, and a line in the log for each request.',
  ),
  setup: (gateway) => ({
    routes: [
      get('/metrics', async ({ headers: { accept = '' } }) => {
        // A supervisor asks no targets.
        if (!gateway.workers) measureTargets(gateway)
        const format = accept.includes('application/openmetrics-text') ? 'openmetrics' : 'text'
        const headers = { 'Content-Type': contentTypes[format] }
        return { status: 200, headers, body: await gateway.metrics.text(format) }
      }),
      get('/healthz', async () => json({ status: 'ok' })),
      get('/readyz', async () => readiness(gateway, await gateway.workers?.conditions())),
    ],
    begin: (x) => ({
      check: () => continueClientId(x),
      done: (outcome) => observe(gateway, x, outcome),
    }),
  }),
}

function get(path: string, serve: (x: Exchange) => Promise<Answer>): Route {
  return {
    method: 'GET',
    path,
    listener: 'admin',
    access: 'anybody',
    body: 'none',
    begin: answering(serve),
  }
}

/** Where there are workers, what is wrong with one of them is told, too: they may see more of Redis than the supervisor. */
function readiness(gateway: Gateway, ofWorkers: readonly Condition[] | undefined): Answer {
  const { state, workers } = gateway
  const own = conditionOf(gateway)
  const all = [own, ...(ofWorkers ?? [])]
  const first = (part: 'redis' | 'ledger' | 'spool') =>
    all.map((one) => one[part]).find((text) => text !== 'ok') ?? 'ok'
  const readyWorkers = ofWorkers?.filter((one) => one.isReady).length
  const isReady = own.isReady && readyWorkers !== 0
  const checks = {
    redis: first('redis'),
    ledger: first('ledger'),
    spool: first('spool'),
    draining: state.draining,
    ...(workers && { workers: `${readyWorkers ?? 0} of ${workers.count}` }),
  }
  return json({ status: isReady ? 'ready' : 'not ready', ...checks }, isReady ? 200 : 503)
}

/** Echoes the client's request id; only visible ASCII, because it goes out as a header. */
function continueClientId(x: Exchange): void {
  const id = clientId(x)
  if (id) x.replyHeaders['X-Client-Request-Id'] = id
}

function clientId(x: Exchange): string | undefined {
  const id = x.headers['x-client-request-id']
  return typeof id === 'string' && /^[\x21-\x7e]{1,255}$/.test(id) ? id : undefined
}

function observe(gateway: Gateway, x: Exchange, outcome: Outcome): void {
  const { metrics } = gateway
  const seconds = (performance.now() - x.arrivedAt) / 1000
  metrics.httpRequests.inc({ route: x.route.path, method: methodLabel(x), status: outcome.status })
  // Probes ask every few seconds: their log lines would bury the others.
  const isProbe = x.route.listener === 'admin' && x.route.access === 'anybody'
  const isNews = !isProbe || outcome.error !== undefined
  const ids = isNews ? idsOf(x) : {}
  metrics.httpDuration.observe({ route: x.route.path }, { value: seconds, ids })
  if (outcome.error) metrics.rejections.inc({ code: outcome.error.code })
  if (x.facts.wouldRefuse) metrics.wouldRefuse.inc({ code: x.facts.wouldRefuse })
  if (outcome.error && isOutage(outcome.error, gateway.redis)) gateway.redis.outage.count()
  if (x.route.metered && x.facts.model) observeGeneration(gateway, x, { outcome, ids })
  gateway.log[isNews ? 'info' : 'debug'](line(gateway, x, outcome, seconds), 'request')
}

/** As the line in the log has them. */
function idsOf({ id, facts: { traceId } }: Exchange): Record<string, string> {
  return traceId === undefined ? { request_id: id } : { request_id: id, trace_id: traceId }
}

const methods = new Set(['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE', 'OPTIONS'])

function methodLabel(x: Exchange): string {
  return methods.has(x.method) ? x.method : 'other'
}

interface Observed {
  readonly outcome: Outcome
  readonly ids: Record<string, string>
}

function observeGeneration(
  { metrics, config }: Gateway,
  x: Exchange,
  { outcome, ids }: Observed,
): void {
  const { facts } = x
  const model = facts.model ?? ''
  for (const { target, outcome: code } of facts.failed ?? []) {
    metrics.upstreamRequests.inc({ model, target, outcome: failureOf(code) })
  }
  if (facts.target) {
    metrics.upstreamRequests.inc({ model, target: facts.target, outcome: resultOf(outcome) })
    if (isGivenUp(outcome)) metrics.upstreamAborted.inc()
  }
  if (facts.overheadMs !== undefined) metrics.overhead.observe(facts.overheadMs / 1000)
  if (facts.firstTokenMs !== undefined)
    metrics.firstToken.observe({ model }, { value: facts.firstTokenMs / 1000, ids })
  if (facts.upstreamMs !== undefined) {
    metrics.upstreamDuration.observe({ model }, { value: facts.upstreamMs / 1000, ids })
    const events = x.meter?.contentEvents ?? 0
    const streamedMs = facts.upstreamMs - (facts.firstTokenMs ?? 0)
    if (facts.stream && events > 1) {
      metrics.interToken.observe({ model }, streamedMs / (events - 1) / 1000)
    }
  }
  metrics.flushes.inc(facts.flushes)
  if (!facts.basis) return
  metrics.settlements.inc({ basis: facts.basis })
  const { tokens = noTokens } = facts
  metrics.tokens.inc({ model, kind: 'input' }, tokens.prompt - tokens.cached)
  metrics.tokens.inc({ model, kind: 'cached_input' }, tokens.cached)
  metrics.tokens.inc({ model, kind: 'output' }, tokens.completion)
  void countCharge(metrics, model, facts)
  const paid = config.models.get(model)?.cost
  if (paid) metrics.cost.inc({ model }, costOf(paid, tokens))
}

/** Counts at once, except in shadow mode: there, only Redis' reply says how much is waived. */
async function countCharge(metrics: Metrics, model: string, facts: Facts): Promise<void> {
  const { cost = 0, unpaid } = facts
  // A ledger that closes may have settled more than this cost, and a counter takes nothing below 0.
  const waived = unpaid ? Math.min(cost, await unpaid) : 0
  metrics.charged.inc({ model }, cost - waived)
  // Also where it is 0: rules add the two counters, and without a series of both they would have no result.
  metrics.waived.inc({ model }, waived)
}

/** A request that the gateway or its client ended is no failure of the backend. */
function resultOf(outcome: Outcome): 'complete' | ReturnType<typeof failureOf> {
  const { complete, error } = outcome
  if (complete) return 'complete'
  const isOurs = error !== undefined && error.source !== 'backend'
  return isOurs || isGivenUp(outcome) ? 'aborted' : failureOf(error?.code)
}

/** Apart from failures, because a limit is mended otherwise. */
function failureOf(code: string | undefined): 'rate_limited' | 'aborted' | 'failed' {
  if (code === 'upstream_rate_limited') return 'rate_limited'
  // An attempt for which the gateway had no file descriptor.
  return code === 'overloaded' ? 'aborted' : 'failed'
}

function isGivenUp({ clientLeft, error }: Outcome): boolean {
  return clientLeft || error?.code === 'message_cancelled'
}

/** What is undefined is not written. No spreads, which make each object in another way: 1 µs a request. */
function line(gateway: Gateway, x: Exchange, outcome: Outcome, seconds: number): object {
  const { error } = outcome
  const { facts } = x
  return {
    request_id: x.id,
    client_request_id: clientId(x),
    trace_id: facts.traceId,
    method: x.method,
    route: x.route.path,
    status: outcome.status,
    ms: rounded(seconds * 1000),
    ip: x.ip,
    account: (x.identity ?? error?.caller)?.accountId ?? facts.accountId,
    key: (x.identity ?? error?.caller)?.keyId ?? facts.keyId,
    model: facts.model,
    target: facts.target,
    attempts: facts.failed && attemptsOf(x, outcome, seconds),
    stream: facts.stream,
    overhead_ms: rounded(facts.overheadMs),
    first_token_ms: rounded(facts.firstTokenMs),
    upstream_ms: rounded(facts.upstreamMs),
    finish_reason: x.meter?.finishReason,
    prompt_tokens: facts.tokens?.prompt,
    cached_tokens: facts.tokens?.cached,
    completion_tokens: facts.tokens?.completion,
    estimated: facts.estimated,
    basis: facts.basis,
    cost: facts.cost,
    would_refuse: facts.wouldRefuse,
    client_left: outcome.clientLeft || undefined,
    code: error?.code,
    source: error?.source,
    err: error?.cause && isSurprise(error, gateway) ? error.cause : undefined,
  }
}

/** All attempts at targets, the last one included. */
function attemptsOf({ facts }: Exchange, outcome: Outcome, seconds: number): object[] {
  const { failed = [], target, askedMs = 0 } = facts
  const result = outcome.error?.code ?? resultOf(outcome)
  const all = [...failed, { target, outcome: result, ms: seconds * 1000 - askedMs }]
  return all.map((one) => ({ ...one, ms: rounded(one.ms) }))
}

/** Whether the line gets the cause. While Redis is away, every request is refused for the same reason, which is in the log once already. */
function isSurprise(error: GatewayError, { redis }: Gateway): boolean {
  return (error.status >= 500 || error.source === 'backend') && !isOutage(error, redis)
}

/** Rounds to the microsecond. */
function rounded(ms: number | undefined): number | undefined {
  return ms && Math.round(ms * 1000) / 1000
}
