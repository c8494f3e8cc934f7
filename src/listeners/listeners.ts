// Opens both listeners, makes an exchange of each request and runs its life. Knows which exchanges still run, for the
// drain.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { Arrival } from './arrival.ts'
import { free } from '../sharing/discard.ts'
import { GatewayError } from '../errors.ts'
import type { Answer, Exchange, Route } from '../exchange.ts'
import { ClientLeft, createBodyBudget, readJsonBody } from '../http/body.ts'
import type { BodyBudget, BodyClaim } from '../http/body.ts'
import { createClientAddress } from '../http/client-address.ts'
import { parseAhead, smallBytes } from '../http/json/scan.ts'
import { hasLeft, sendAnswer, sendError } from '../http/reply.ts'
import { createRouter } from './router.ts'
import type { Router } from './router.ts'
import { createListener } from './server.ts'
import { shareOf } from '../http/slow-reader.ts'
import type { HttpListener } from './server.ts'
import { live } from '../lifecycle.ts'
import type { Life, NamedHooks, Wire } from '../lifecycle.ts'
import type { Gateway, NamedRunning } from '../plugin.ts'
import { isOutage } from '../redis/scripts.ts'

export interface Listeners {
  readonly public: HttpListener
  readonly admin: HttpListener
  /** Refuses new work on the public port, lets running exchanges end, ends the rest after `drainMs`; then closes both listeners. */
  close(): Promise<void>
}

export async function openListeners(
  gateway: Gateway,
  running: readonly NamedRunning[],
): Promise<Listeners> {
  const { config } = gateway
  const inside = new Set<AbortController>()
  const routes = running.flatMap((one) => one.routes ?? [])
  const ownerOf = new Map(running.flatMap((one) => one.routes?.map((route) => [route, one]) ?? []))
  const budget = createBodyBudget(config.limits.bodiesBytes)
  const shared = { gateway, running, ownerOf, inside, budget }
  const open = (listener: 'public' | 'admin') => {
    const listen = listener === 'admin' ? config.admin.listen : config.listen
    const handling = {
      ...shared,
      router: createRouter(routes.filter((route) => (route.listener ?? 'public') === listener)),
      addressOf: createClientAddress(listen.trustedProxies),
    }
    return createListener({
      listen,
      limits: config.limits,
      onRequest: requestHandler(handling),
      // The drain does not wait for exchanges that begin now.
      onDrainingRequest: requestHandler({ ...handling, router: closedRouter, inside: new Set() }),
      onRefused: (error, id) => noteRefusal(gateway, error, id),
      log: gateway.log,
    })
  }
  const admin = await open('admin')
  const front = await open('public').catch(async (error: unknown) => {
    await admin.close()
    throw error
  })
  return {
    public: front,
    admin,
    async close() {
      gateway.state.draining = true
      front.drain()
      await drained(inside, config.drainMs)
      await front.close()
      await admin.close()
    },
  }
}

const closedRouter: Router = {
  find() {
    throw new GatewayError('server_draining')
  },
}

/** A request that never became an exchange has a log line and is counted, too. */
function noteRefusal({ metrics, log }: Gateway, error: GatewayError, id: string): void {
  const { status, code, source } = error
  metrics.rejections.inc({ code })
  log.info({ request_id: id, status, code, source }, 'request')
}

/** How often the drain looks whether exchanges still run. */
const lookMs = 20
/** The time, after the abort, for the terminal events to be written and the settlements to be sent. */
const endingMs = 5000

async function drained(inside: ReadonlySet<AbortController>, drainMs: number): Promise<void> {
  await emptied(inside, drainMs)
  for (const one of inside) one.abort(new GatewayError('server_draining'))
  await emptied(inside, endingMs)
}

async function emptied(inside: ReadonlySet<unknown>, withinMs: number): Promise<void> {
  const until = performance.now() + withinMs
  while (inside.size > 0 && performance.now() < until) {
    await new Promise((resolve) => setTimeout(resolve, lookMs))
  }
}

interface Handling {
  readonly gateway: Gateway
  readonly running: readonly NamedRunning[]
  readonly ownerOf: ReadonlyMap<Route, NamedRunning>
  readonly inside: Set<AbortController>
  readonly budget: BodyBudget
  readonly router: Router
  readonly addressOf: (req: IncomingMessage) => string
}

function requestHandler(handling: Handling) {
  const { gateway, inside } = handling
  const onHookFailure = (plugin: string, err: unknown) => {
    gateway.metrics.hookErrors.inc({ plugin })
    if (!isOutage(err, gateway.redis)) gateway.log.error({ err, plugin }, 'a hook failed')
  }
  return async (req: IncomingMessage, res: ServerResponse) => {
    const controller = new AbortController()
    inside.add(controller)
    const claim: BodyClaim = handling.budget.claim(() => x.caller?.ref ?? '')
    const x = new Arrival(req, handling, { signal: controller.signal, memory: claim })
    const onClose = () => {
      if (!hasLeft(res)) return
      x.leave()
      if (x.route.abortOnLeave && !x.finishesAlone) controller.abort(new ClientLeft())
    }
    res.on('close', onClose)
    try {
      const wire = new HttpWire({ req, res, x, claim, gateway })
      await live(x, wire, { ...begun(x, handling), onHookFailure })
    } finally {
      claim.release()
      inside.delete(controller)
    }
  }
}

/** The route's hooks come just after those of its plugin. */
function begun(x: Exchange, { running, ownerOf }: Handling): Omit<Life, 'onHookFailure'> {
  const owner = ownerOf.get(x.route)
  const serving = x.route.begin(x)
  const hooks: NamedHooks[] = []
  for (const one of running) {
    const own = one.begin?.(x)
    if (own) hooks.push(named(own, one.name))
    if (one === owner) hooks.push(named(serving, one.name))
  }
  return { hooks, serve: (run) => serving.serve(run) }
}

function named(hooks: object, plugin: string): NamedHooks {
  return Object.assign(hooks, { plugin })
}

interface WireParts {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly x: Arrival
  readonly claim: BodyClaim
  readonly gateway: Gateway
}

class HttpWire implements Wire {
  readonly #parts: WireParts
  #isParsing = false

  constructor(parts: WireParts) {
    this.#parts = parts
  }

  get left(): boolean {
    return hasLeft(this.#parts.res)
  }

  async readBody({ maxBytes = 0, keptChars }: Route, vouch: () => Promise<void>): Promise<void> {
    const { req, x, claim, gateway } = this.#parts
    const { jsonBodyMs: timeoutMs, bodyBytesPerSecond: bytesPerSecond } = gateway.config.limits
    const body = await readJsonBody(req, { maxBytes, timeoutMs, bytesPerSecond, vouch, claim })
    // Held before it is parsed: a plugin weighs a refusal by the size of the body, even if the body is not valid JSON.
    x.hold(body)
    if (body.length <= smallBytes) return
    this.#isParsing = true
    claim.take(await parseAhead(body, { ref: x.caller?.ref ?? '', keptChars }))
    this.#isParsing = false
  }

  async send(answer: Answer): Promise<void> {
    const { res, x, gateway } = this.#parts
    const { metrics, config } = gateway
    const limits = {
      readerStallMs: config.limits.readerStallMs,
      unsent: x.caller && shareOf(gateway.pools.unsent, x.caller.ref),
      onDrop: () => metrics.readersDropped.inc(),
      onContent: (bytes: number) => metrics.downloadBytes.inc(bytes),
    }
    const isStream = !('body' in answer)
    const kind = kindOf(answer, x.route)
    if (isStream) metrics.streamsOpen.inc({ kind })
    try {
      await sendAnswer(res, x, { answer, limits, signal: x.signal })
    } finally {
      if (isStream) metrics.streamsOpen.dec({ kind })
    }
  }

  async sendError(error: GatewayError): Promise<void> {
    const { res, x } = this.#parts
    if (this.#isParsing) free(x.body)
    sendError(res, x, error)
  }
}

/** The label of an answer that is written bit by bit, for the metrics. */
function kindOf(answer: Answer, { access }: Route): 'download' | 'session' | 'chat' {
  if ('content' in answer) return 'download'
  return access === 'sessions' ? 'session' : 'chat'
}
