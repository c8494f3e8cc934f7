// Opens both listeners, with the routes of all plugins, and closes them: the drain waits for the exchanges that run.

import { setTimeout as pause } from 'node:timers/promises'
import { createSecureContext } from 'node:tls'
import { requestHandler } from './arrival.ts'
import type { Handling, Inside } from './arrival.ts'
import type { Listen } from '../config/config.ts'
import type { Edition } from '../edition.ts'
import { GatewayError } from '../errors.ts'
import { createBodyBudget } from '../http/body.ts'
import { createClientAddress } from '../http/client-address.ts'
import type { Sharing } from './port.ts'
import { createRouter } from './router.ts'
import type { Router } from './router.ts'
import { createListener } from './server.ts'
import type { HttpListener } from './server.ts'
import type { Gateway } from '../plugin.ts'
import { LinkedList } from '../sharing/linked-list.ts'

export interface Listeners {
  readonly public: HttpListener
  readonly admin: HttpListener
  /**
   * Throws when the routes clash, or OpenSSL does not take the certificate. When the result is called, requests that come
   * from then on begin with this configuration.
   */
  prepare(edition: Edition): () => void
  /**
   * The gateway is not ready from now on. After `shutdown_delay`, if there is one, it first takes the requests that
   * wait by then. It refuses new work on the public port, lets running exchanges end, and ends the rest after `drain`
   * (in a supervisor after 5 s at most); then it closes both listeners. When `hurry` fires, it ends the rest at once.
   */
  close(hurry?: AbortSignal): Promise<void>
}

type Side = 'public' | 'admin'

/** Which of the ports this process opens; by default both. */
export interface Ports {
  readonly only?: Side
  /** In place of the configuration's, which may be 0: another process of this gateway has it already. */
  readonly port?: number | undefined
}

export async function openListeners(
  first: Edition,
  { only, port }: Ports = {},
): Promise<Listeners> {
  let edition = first
  const { state, pools } = first.gateway
  const shared = { inside: new LinkedList<Inside>(), budget: createBodyBudget(pools.bodies) }
  let handlers = handlersOf(first, shared)
  const open = async (side: Side) => {
    if (only !== undefined && only !== side) return notOpened
    const own: Sharing & { port?: number } =
      port === undefined ? { wide: 'first' } : { wide: 'joined', port }
    return await createListener({
      listen: { ...listenOf(edition, side), ...(side === 'public' && own) },
      limits: edition.gateway.config.limits,
      onRequest: (req, res) => handlers[side].onRequest(req, res),
      onDrainingRequest: (req, res) => handlers[side].onDrainingRequest(req, res),
      onRefused: (error, id) => noteRefusal(edition.gateway, error, id),
      log: edition.gateway.log,
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
    prepare(next) {
      const nextHandlers = handlersOf(next, shared)
      const { config } = next.gateway
      createSecureContext(config.listen.tls)
      return () => {
        front.adjust(config.listen, config.limits)
        admin.adjust(config.admin.listen, config.limits)
        handlers = nextHandlers
        edition = next
      }
    },
    async close(hurry) {
      state.draining = true
      const { shutdownDelayMs, drainMs: wholeMs } = edition.gateway.config
      const drainMs = only === 'admin' ? Math.min(wholeMs, supervisorDrainMs) : wholeMs
      const waits = shutdownDelayMs > 0 && only !== 'admin'
      if (waits) await pause(shutdownDelayMs, undefined, { signal: hurry }).catch(() => undefined)
      const drainEndsAt = performance.now() + drainMs
      // Requests that a load balancer sent before it noticed may still wait. It cannot send a large body a second time,
      // to another gateway.
      if (waits) await front.caughtUp(Math.min(drainMs / 2, catchUpMs), hurry)
      front.drain()
      await drained(shared.inside, drainEndsAt - performance.now(), hurry)
      await front.close(hurry)
      await admin.close(hurry)
    },
  }
}

/** A supervisor has only the admin port, and its workers have drained when it closes. */
const supervisorDrainMs = 5000
/** How long requests that were sent before the drain began are still taken. What is taken so late has less time to end. */
const catchUpMs = 15_000

/** In place of a port that another process opens. */
const notOpened: HttpListener = {
  port: 0,
  address: '',
  connections: 0,
  adjust: () => undefined,
  caughtUp: async () => undefined,
  drain: () => undefined,
  close: async () => undefined,
}

function listenOf({ gateway: { config } }: Edition, side: Side): Listen {
  return side === 'admin' ? config.admin.listen : config.listen
}

function handlersOf(edition: Edition, shared: Pick<Handling, 'inside' | 'budget'>) {
  const { plugins } = edition
  const routes = plugins.flatMap((one) => one.routes ?? [])
  const ownerOf = new Map(plugins.flatMap((one) => one.routes?.map((route) => [route, one]) ?? []))
  const handlers = (side: Side) => {
    const handling = {
      ...shared,
      listener: side,
      edition,
      ownerOf,
      router: createRouter(
        routes.filter((route) => (route.listener ?? 'public') === side),
        { strayMessage: side === 'admin' ? strayAdmin : undefined },
      ),
      addressOf: createClientAddress(listenOf(edition, side).trustedProxies),
    }
    // The drain does not wait for exchanges that begin now.
    const draining = { ...handling, router: closedRouter, inside: new LinkedList<Inside>() }
    return { onRequest: requestHandler(handling), onDrainingRequest: requestHandler(draining) }
  }
  return { public: handlers('public'), admin: handlers('admin') }
}

const strayAdmin = 'The admin port has no such route. Clients use the port of `listen`.'

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
/**
 * After the time of the drain, it looks this many times more before it cuts what still runs: so what arrived while this
 * process stood still is read first.
 */
const lastLooks = 10
/** The time, after the abort, for the terminal events to be written and the settlements to be sent. */
const settlingMs = 5000

async function drained(
  inside: LinkedList<Inside>,
  drainMs: number,
  hurry: AbortSignal | undefined,
): Promise<void> {
  await emptied(inside, drainMs, hurry)
  for (let i = 0; i < lastLooks && inside.size > 0 && !hurry?.aborted; i++) await pause(lookMs)
  for (const one of inside.members()) one.abort(new GatewayError('server_draining'))
  await emptied(inside, settlingMs)
}

async function emptied(
  inside: LinkedList<Inside>,
  withinMs: number,
  hurry?: AbortSignal,
): Promise<void> {
  const until = performance.now() + withinMs
  while (inside.size > 0 && performance.now() < until && !hurry?.aborted) {
    await pause(lookMs)
  }
}
