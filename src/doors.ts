// Both listeners: makes an exchange of each request and lets it live. Knows who is still inside, for the drain.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { GatewayError, asGatewayError } from './errors.ts'
import type { Exchange } from './exchange.ts'
import type { Gateway, NamedRunning } from './gateway.ts'
import { ClientLeft, createBodyBudget, readJsonBody } from './http/body.ts'
import type { BodyBudget } from './http/body.ts'
import { createClientAddress } from './http/client-address.ts'
import { hasLeft, sendAnswer, sendError } from './http/reply.ts'
import { createRouter } from './http/router.ts'
import { createListener } from './http/server.ts'
import type { HttpListener } from './http/server.ts'
import { parseTarget } from './http/target.ts'
import { newId } from './ids.ts'
import { live } from './lifecycle.ts'
import type { NamedHooks, Wire } from './lifecycle.ts'
import type { Route } from './plugin.ts'

export interface Doors {
  readonly public: HttpListener
  readonly admin: HttpListener
  /** Refuses new work on the public port, lets what runs end, ends the rest after `drainMs`; then closes both. */
  close(): Promise<void>
}

export async function openDoors(
  gateway: Gateway,
  running: readonly NamedRunning[],
): Promise<Doors> {
  const { config } = gateway
  const inside = new Set<AbortController>()
  const routes = running.flatMap((one) => one.routes ?? [])
  const shared = { gateway, running, inside, budget: createBodyBudget(config.limits.bodiesBytes) }
  const open = (listener: 'public' | 'admin') => {
    const listen = listener === 'admin' ? config.admin.listen : config.listen
    const onRequest = requestHandler({
      ...shared,
      router: createRouter(routes.filter((route) => (route.listener ?? 'public') === listener)),
      addressOf: createClientAddress(listen.trustedProxies),
    })
    return createListener({ listen, limits: config.limits, onRequest, log: gateway.log })
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

/** How often the drain looks whether anybody is still inside. */
const lookMs = 20
/** For the terminals to be written and the settlements to be sent. */
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
  readonly inside: Set<AbortController>
  readonly budget: BodyBudget
  readonly router: ReturnType<typeof createRouter>
  readonly addressOf: (req: IncomingMessage) => string
}

function requestHandler(handling: Handling) {
  const { gateway, running, inside } = handling
  const onHookFailure = (plugin: string, err: unknown) => {
    gateway.metrics.hookErrors.inc({ plugin })
    gateway.log.error({ err, plugin }, 'a hook failed')
  }
  return async (req: IncomingMessage, res: ServerResponse) => {
    const controller = new AbortController()
    inside.add(controller)
    const x = exchangeOf(req, handling, controller.signal)
    const onClose = () => {
      if (hasLeft(res) && x.route.abortOnLeave) controller.abort(new ClientLeft())
    }
    res.on('close', onClose)
    const claim = handling.budget.claim()
    try {
      const hooks: NamedHooks[] = []
      for (const one of running) {
        if (one.begin) hooks.push(named(one.begin(x), one.name))
      }
      const wire = wireOf({ req, res, x, claim, gateway })
      await live(x, wire, hooks, onHookFailure)
    } finally {
      claim.release()
      inside.delete(controller)
    }
  }
}

function named(hooks: object, plugin: string): NamedHooks {
  return Object.assign(hooks, { plugin })
}

function exchangeOf(
  req: IncomingMessage,
  { router, addressOf }: Handling,
  signal: AbortSignal,
): Exchange {
  const { path, query, route, params } = find(req, router)
  return {
    id: newId('req'),
    route,
    method: req.method ?? '',
    path,
    query,
    params,
    headers: req.headers,
    ip: addressOf(req),
    arrivedAt: performance.now(),
    signal,
    replyHeaders: {},
    body: nothing,
    facts: {},
  }
}

const nothing = Buffer.alloc(0)

/** A refusal by the router is a route too: so it has an id, a log line and what plugins add to every answer. */
function find(req: IncomingMessage, router: ReturnType<typeof createRouter>) {
  try {
    const { path, query } = parseTarget(req)
    try {
      return { path, query, ...router.find(req.method ?? '', path) }
    } catch (error) {
      return { path, query, route: refusing(error), params: {} }
    }
  } catch (error) {
    return { path: '', query: new URLSearchParams(), route: refusing(error), params: {} }
  }
}

function refusing(thrown: unknown): Route {
  const error = asGatewayError(thrown)
  const serve = () => Promise.reject(error)
  return { method: 'GET', path: 'none', access: 'anybody', body: 'none', serve }
}

interface WireParts {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly x: Exchange
  readonly claim: ReturnType<BodyBudget['claim']>
  readonly gateway: Gateway
}

function wireOf({ req, res, x, claim, gateway }: WireParts): Wire {
  const { limits } = gateway.config
  const streamLimits = {
    readerStallMs: limits.readerStallMs,
    onDrop: () => gateway.metrics.readersDropped.inc(),
  }
  return {
    get left() {
      return hasLeft(res)
    },
    readBody: ({ maxBytes = 0 }, vouch) =>
      readJsonBody(req, { maxBytes, timeoutMs: limits.jsonBodyMs, vouch, claim }),
    async send(answer) {
      const isStream = 'stream' in answer
      if (isStream) gateway.metrics.streamsOpen.inc({ kind: 'chat' })
      try {
        await sendAnswer(res, x, { answer, limits: streamLimits })
      } finally {
        if (isStream) gateway.metrics.streamsOpen.dec({ kind: 'chat' })
      }
    },
    async sendError(error) {
      sendError(res, x, error)
    },
  }
}
