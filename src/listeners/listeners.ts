// Opens both listeners, with the routes of all plugins, and closes them: the drain waits for the exchanges that run.

import { requestHandler } from './arrival.ts'
import type { Inside } from './arrival.ts'
import { GatewayError } from '../errors.ts'
import { createBodyBudget } from '../http/body.ts'
import { createClientAddress } from '../http/client-address.ts'
import { createRouter } from './router.ts'
import type { Router } from './router.ts'
import { createListener } from './server.ts'
import type { HttpListener } from './server.ts'
import type { Gateway, NamedRunning } from '../plugin.ts'
import { LinkedList } from '../sharing/linked-list.ts'

export interface Listeners {
  readonly public: HttpListener
  readonly admin: HttpListener
  /** Refuses new work on the public port, lets running exchanges end, ends the rest after `drainMs`; then closes both listeners. */
  close(): Promise<void>
}

export async function openListeners(
  gateway: Gateway,
  plugins: readonly NamedRunning[],
): Promise<Listeners> {
  const { config } = gateway
  const inside = new LinkedList<Inside>()
  const routes = plugins.flatMap((one) => one.routes ?? [])
  const ownerOf = new Map(plugins.flatMap((one) => one.routes?.map((route) => [route, one]) ?? []))
  const budget = createBodyBudget(config.limits.bodiesBytes)
  const shared = { gateway, plugins, ownerOf, inside, budget }
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
      onDrainingRequest: requestHandler({
        ...handling,
        router: closedRouter,
        inside: new LinkedList(),
      }),
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
const settlingMs = 5000

async function drained(inside: LinkedList<Inside>, drainMs: number): Promise<void> {
  await emptied(inside, drainMs)
  for (const one of inside.members()) one.abort(new GatewayError('server_draining'))
  await emptied(inside, settlingMs)
}

async function emptied(inside: LinkedList<Inside>, withinMs: number): Promise<void> {
  const until = performance.now() + withinMs
  while (inside.size > 0 && performance.now() < until) {
    await new Promise((resolve) => setTimeout(resolve, lookMs))
  }
}
