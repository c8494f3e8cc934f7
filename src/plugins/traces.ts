// OpenTelemetry spans: one for each request of a client, and below it one for each attempt at a target, with the names of
// the conventions for HTTP and GenAI. Only the API is a dependency; a file of the operator's makes the SDK's provider. Off
// until gateway.yaml names that file.

import type {
  Context,
  Span,
  SpanContext,
  SpanStatus,
  Tracer,
  TracerProvider,
} from '@opentelemetry/api'
import type * as OpenTelemetry from '@opentelemetry/api'
import { pathToFileURL } from 'node:url'
import { endpoints } from '../config/endpoints.ts'
import { path, z } from '../config/schema.ts'
import type { BackendRequest, Exchange, Hooks, Outcome } from '../exchange.ts'
import { keptThroughReloads } from '../kept-through-reloads.ts'
import type { Gateway, Plugin } from '../plugin.ts'
import { soon, within } from '../sharing/patience.ts'

type Api = typeof OpenTelemetry

/** What an operator's file exports as `provider`. */
interface SpanProvider extends TracerProvider {
  shutdown?(): Promise<void>
}

const schema = z.strictObject({
  sdk: path()
    .optional()
    .describe(
      'A module that exports `provider`, a TracerProvider of an OpenTelemetry SDK. Read once; without it there are no spans.',
    ),
})

/** How long the file may take to load: a start or a reload that waits for it has to end. */
const loadMs = 10_000
/** How long the provider may take to send its last spans when the gateway ends. */
const shutdownMs = 5000

export const traces: Plugin<z.infer<typeof schema>> = {
  name: 'traces',
  schema: schema.describe(
    'OpenTelemetry spans of requests and attempts; off until `sdk` is given.',
  ),
  async setup(gateway, { sdk }) {
    if (sdk === undefined) return {}
    const api = await import('@opentelemetry/api')
    const provider = await providerIn(sdk)
    providers(gateway).add(provider)
    const making = { api, tracer: provider.getTracer('tollgate'), tolerate: tolerance(gateway) }
    return {
      begin: (x) =>
        x.route.listener === 'admin'
          ? undefined
          : making.tolerate(() => new Trace(x, making))?.hooks,
    }
  },
}

interface Making {
  readonly api: Api
  readonly tracer: Tracer
  readonly tolerate: ReturnType<typeof tolerance>
}

/**
 * An error that the provider throws costs a span, not a request. It is counted and logged like an error of a `done`,
 * which the lifecycle catches.
 */
function tolerance({ metrics, log }: Gateway) {
  return <T>(work: () => T): T | undefined => {
    try {
      return work()
    } catch (err) {
      metrics.hookErrors.inc({ plugin: traces.name })
      log.error({ err, plugin: traces.name }, 'a hook failed')
      return undefined
    }
  }
}

const providers = keptThroughReloads((gateway: Gateway) => {
  const opened = new Set<SpanProvider>()
  gateway.atEnd(async () => {
    await soon(Promise.allSettled([...opened].map(async (one) => one.shutdown?.())), shutdownMs)
  })
  return opened
})

async function providerIn(file: string): Promise<SpanProvider> {
  const loading = import(pathToFileURL(file).href) as Promise<{ provider?: Partial<SpanProvider> }>
  const { provider } = await within(loading, loadMs, `import of ${file}`)
  if (typeof provider?.getTracer === 'function') return provider as SpanProvider
  throw new Error(`${file} exports no \`provider\` that has getTracer()`)
}

class Trace {
  readonly #x: Exchange
  readonly #making: Making
  readonly #span: Span
  readonly #context: Context
  #attempt: Span | undefined
  /**
   * The Unix time in ms at which `performance.now()` was 0, by the clock at the beginning of the trace: so all times of
   * a trace fit together.
   */
  readonly #epochMs = Date.now() - performance.now()
  /** How many attempts have failed when the present one begins. */
  #failed = 0

  constructor(x: Exchange, making: Making) {
    this.#x = x
    this.#making = making
    const { api, tracer } = making
    const caller = contextOf(x, api)
    const root = api.ROOT_CONTEXT
    // A request that the router has refused has no route. Its path is the client's choice, and must not become a span's
    // name.
    const route = x.route.path.startsWith('/') ? x.route.path : undefined
    const attributes = {
      'http.request.method': x.method,
      ...(route !== undefined && { 'http.route': route }),
      'tollgate.request.id': x.id,
    }
    this.#span = tracer.startSpan(
      route === undefined ? x.method : `${x.method} ${route}`,
      { kind: api.SpanKind.SERVER, startTime: this.#epochMs + x.arrivedAt, attributes },
      caller ? api.trace.setSpanContext(root, caller) : root,
    )
    this.#context = api.trace.setSpan(root, this.#span)
    const own = this.#span.spanContext()
    if (api.isSpanContextValid(own)) x.facts.traceId = own.traceId
  }

  get hooks(): Hooks {
    return {
      upstream: ({ headers }) => this.#making.tolerate(() => this.#ask(headers)),
      done: (outcome) => this.#end(outcome),
    }
  }

  #ask(headers: BackendRequest['headers']): void {
    this.#endFailed()
    this.#attempt = this.#begin()
    const { api } = this.#making
    const own = this.#attempt.spanContext()
    if (!api.isSpanContextValid(own)) return
    headers.traceparent = `00-${own.traceId}-${own.spanId}-0${own.traceFlags & api.TraceFlags.SAMPLED}`
    const state = own.traceState?.serialize()
    if (state) headers.tracestate = state
    else delete headers.tracestate
  }

  #begin(): Span {
    const { facts, want } = this.#x
    const operation = operationOf(this.#x.route.path)
    const attributes = {
      'gen_ai.operation.name': operation,
      // The provider of the interface: nobody knows which server answers.
      'gen_ai.provider.name': 'openai',
      'gen_ai.request.model': facts.model ?? '',
      ...(want?.sessionId !== undefined && { 'gen_ai.conversation.id': want.sessionId }),
      'tollgate.target': facts.target ?? '',
    }
    const { api, tracer } = this.#making
    const kind = api.SpanKind.CLIENT
    return tracer.startSpan(
      `${operation} ${facts.model}`,
      { kind, startTime: this.#now(), attributes },
      this.#context,
    )
  }

  /** Ends the span of an attempt that has failed and is followed by another. */
  #endFailed(): void {
    const { failed = [] } = this.#x.facts
    const last = failed.length > this.#failed ? failed.at(-1) : undefined
    this.#failed = failed.length
    if (!this.#attempt || !last) return
    this.#fail(this.#attempt, last.outcome)
    this.#attempt.end(this.#now())
    this.#attempt = undefined
  }

  #end(outcome: Outcome): void {
    const { status, clientLeft } = outcome
    const { facts, identity, meter } = this.#x
    const failure = failureIn(outcome)
    if (this.#attempt) {
      this.#attempt.setAttributes({
        ...(facts.tokens && {
          'gen_ai.usage.input_tokens': facts.tokens.prompt,
          'gen_ai.usage.cache_read.input_tokens': facts.tokens.cached,
          'gen_ai.usage.output_tokens': facts.tokens.completion,
        }),
        ...(meter?.finishReason !== undefined && {
          'gen_ai.response.finish_reasons': [meter.finishReason],
        }),
        ...(facts.firstTokenMs !== undefined && {
          'tollgate.first_token_ms': facts.firstTokenMs,
        }),
      })
      if (failure) this.#fail(this.#attempt, failure.type)
      this.#attempt.end(this.#now())
    }
    this.#span.setAttributes({
      'http.response.status_code': status,
      ...(identity && {
        'tollgate.account.id': identity.accountId,
        'tollgate.key.id': identity.keyId,
      }),
      ...(facts.cost !== undefined && { 'tollgate.cost': facts.cost }),
      ...(facts.basis !== undefined && { 'tollgate.basis': facts.basis }),
      ...(clientLeft && { 'tollgate.client_left': true }),
    })
    if (failure?.isServers) this.#fail(this.#span, failure.type)
    else if (failure) this.#span.setAttribute('error.type', failure.type)
    this.#span.end(this.#now())
  }

  #now(): number {
    return this.#epochMs + performance.now()
  }

  #fail(span: Span, code: string): void {
    const status: SpanStatus = { code: this.#making.api.SpanStatusCode.ERROR, message: code }
    span.setAttribute('error.type', code).setStatus(status)
  }
}

/** What failed: the error, or the status of a backend's own refusal. What a client does wrong is no failure of a server's span. */
function failureIn({ status, error, clientLeft }: Outcome) {
  if (error) return { type: error.code, isServers: error.status >= 500 }
  if (status < 400 || clientLeft) return undefined
  return { type: String(status), isServers: status >= 500 }
}

/** There is no version ff. In version 00 nothing may follow the flags; in later versions only further parts may. */
const traceparent = /^(?!ff|00.{54})[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(?:-.*)?$/

/** The span of the caller, whose trace is continued. */
function contextOf({ headers }: Exchange, api: Api): SpanContext | undefined {
  const { traceparent: parent, tracestate: state } = headers
  const [, traceId, spanId, flags] = (typeof parent === 'string' && traceparent.exec(parent)) || []
  if (traceId === undefined || spanId === undefined) return undefined
  // The SDK continues no trace whose ids are zeros.
  return {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags ?? '0', 16) & api.TraceFlags.SAMPLED,
    isRemote: true,
    ...(typeof state === 'string' && { traceState: api.createTraceState(state) }),
  }
}

/** The endpoint of each route; messages of sessions are chats, too. */
const endpointOf = new Map(
  endpoints.flatMap(({ endpoint, routes }) => routes.map((route) => [route, endpoint] as const)),
)

function operationOf(route: string): string {
  const endpoint = endpointOf.get(route) ?? 'chat'
  return endpoint === 'completions' ? 'text_completion' : endpoint
}
