// A request as it comes in: an exchange of which only the head is known, and the life that it then has. If the router
// refuses the request, its route answers with the refusal, so that the refusal too has an id, a log line and what
// plugins add to every answer.

import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { asGatewayError } from '../errors.ts'
import type { GatewayError } from '../errors.ts'
import { answering } from '../exchange.ts'
import type { Answer, Caller, Exchange, Facts, Identity, Route } from '../exchange.ts'
import { ClientLeft, readJsonBody } from '../http/body.ts'
import type { BodyBudget, BodyShare } from '../http/body.ts'
import { networkOf } from '../http/client-address.ts'
import { parseAhead, smallBytes } from '../http/json/scan.ts'
import { hasLeft, sendAnswer, sendError } from '../http/reply.ts'
import { shareOf } from '../http/slow-reader.ts'
import type { ReaderLimits, Unsent } from '../http/slow-reader.ts'
import { newId } from '../ids.ts'
import { live } from '../lifecycle.ts'
import type { Wire } from '../lifecycle.ts'
import type { Claim } from '../redis/claims.ts'
import type { Gateway, Pools } from '../plugin.ts'
import { isOutage } from '../redis/scripts.ts'
import { free } from '../sharing/discard.ts'
import type { Linked, LinkedList } from '../sharing/linked-list.ts'
import { begun } from './begin.ts'
import type { Owners } from './begin.ts'
import type { Router } from './router.ts'
import type { OnRequest } from './server.ts'
import { parseTarget } from './target.ts'
import type { RequestTarget } from './target.ts'

export interface Ways {
  readonly listener: NonNullable<Route['listener']>
  readonly router: Router
  readonly addressOf: (req: IncomingMessage) => string
}

const nothing = Buffer.alloc(0)

/** All fields are set from the beginning, so that all exchanges have one shape for the JavaScript engine. */
export class Arrival implements Exchange {
  readonly id = newId('req')
  readonly arrivedAt = performance.now()
  readonly replyHeaders: Record<string, string> = {}
  readonly facts: Facts = { flushes: 0 }
  readonly route: Route
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly params: Readonly<Record<string, string | undefined>>
  readonly headers: IncomingHttpHeaders
  readonly ip: string
  readonly signal: AbortSignal
  readonly memory: Exchange['memory']
  readonly incoming: IncomingMessage | undefined
  caller: Caller | undefined = undefined
  proof: Promise<Identity> | undefined = undefined
  identity: Identity | undefined = undefined
  claim: Claim | undefined = undefined
  want: Exchange['want'] = undefined
  grantedPerChoice: Exchange['grantedPerChoice'] = undefined
  alarm: Exchange['alarm'] = undefined
  meter: Exchange['meter'] = undefined
  stop: Exchange['stop'] = undefined
  pause: Exchange['pause'] = undefined
  finishesAlone = false
  work: Promise<unknown> | undefined = undefined
  written: Promise<void> | undefined = undefined
  #body: Buffer = nothing
  #hasLeft = false
  /** Made at the first use of `left`: most exchanges never need it. */
  #leaving: AbortController | undefined

  constructor(
    req: IncomingMessage,
    { listener, router, addressOf }: Ways,
    { signal, memory }: Pick<Exchange, 'signal' | 'memory'>,
  ) {
    const { path, query, route, params } = find(req, { listener, router })
    this.route = route
    this.method = req.method ?? ''
    this.path = path
    this.query = query
    this.params = params
    this.headers = req.headers
    this.ip = addressOf(req)
    this.signal = signal
    this.memory = memory
    this.incoming = route.body === 'stream' ? req : undefined
  }

  get body(): Buffer {
    return this.#body
  }

  /** Called when the body has been read. */
  keepBody(body: Buffer): void {
    this.#body = body
  }

  forgetBody(): void {
    this.#body = nothing
  }

  get left(): AbortSignal {
    if (!this.#leaving) {
      this.#leaving = new AbortController()
      if (this.#hasLeft) this.#leaving.abort()
    }
    return this.#leaving.signal
  }

  /** Called at the end: an idle connection holds its newest exchange, and with it what that exchange still has. */
  forget(): void {
    this.#body = nothing
    this.want = undefined
    this.meter = undefined
    this.stop = undefined
    this.work = undefined
  }

  /** Called when the client closed before the answer was complete. */
  leave(): void {
    this.#hasLeft = true
    this.#leaving?.abort()
  }
}

function find(req: IncomingMessage, { listener, router }: Pick<Ways, 'listener' | 'router'>) {
  let target: RequestTarget | undefined
  try {
    target = parseTarget(req)
    const { path, query } = target
    const { route, params } = router.find(req.method ?? '', path)
    return { path, query, route, params }
  } catch (error) {
    const { path, query } = target ?? { path: '', query: new URLSearchParams() }
    return { path, query, route: refusing(error, listener), params: {} }
  }
}

function refusing(thrown: unknown, listener: Ways['listener']): Route {
  const error = asGatewayError(thrown)
  const begin = answering(() => Promise.reject(error))
  return { method: 'GET', path: 'none', listener, access: 'anybody', body: 'none', begin }
}

/** An exchange that the drain waits for, and ends when its time is over. */
export class Inside extends AbortController implements Linked<Inside> {
  isListed = false
  previous: Inside | undefined
  next: Inside | undefined
}

/** What each request of a listener finds. */
export interface Handling extends Ways, Owners {
  readonly inside: LinkedList<Inside>
  readonly budget: BodyBudget
}

export function requestHandler(handling: Handling): OnRequest {
  const { edition, inside } = handling
  const { gateway } = edition
  const onHookFailure = (plugin: string, err: unknown) => {
    gateway.metrics.hookErrors.inc({ plugin })
    if (!isOutage(err, gateway.redis)) gateway.log.error({ err, plugin }, 'a hook failed')
  }
  return async (req: IncomingMessage, res: ServerResponse) => {
    const controller = new Inside()
    inside.add(controller)
    edition.enter()
    const share: BodyShare = handling.budget.share(() => x.caller?.ref ?? '')
    const x = new Arrival(req, handling, { signal: controller.signal, memory: share })
    const onClose = () => {
      if (!hasLeft(res)) return
      x.leave()
      if (x.route.abortOnLeave && !x.finishesAlone) controller.abort(new ClientLeft())
    }
    res.on('close', onClose)
    try {
      const wire = new HttpWire({ req, res, x, share, gateway })
      await live(x, wire, begun(x, handling, onHookFailure))
    } finally {
      x.forget()
      share.release()
      inside.delete(controller)
      edition.leave()
    }
  }
}

interface WireParts {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly x: Arrival
  readonly share: BodyShare
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
    const { req, x, share, gateway } = this.#parts
    const { jsonBodyMs: timeoutMs, bodyRateBytes: bytesPerSecond } = gateway.config.limits
    const body = await readJsonBody(req, { maxBytes, timeoutMs, bytesPerSecond, vouch, share })
    // Kept before it is parsed: a plugin weighs a refusal by the size of the body, even if the body is not valid JSON.
    x.keepBody(body)
    if (body.length <= smallBytes) return
    this.#isParsing = true
    share.take(await parseAhead(body, { ref: x.caller?.ref ?? '', keptChars }))
    this.#isParsing = false
  }

  async send(answer: Answer): Promise<void> {
    const { res, x, gateway } = this.#parts
    const { metrics, pools } = gateway
    const limits = {
      ...readerLimits(gateway),
      unsent: unsentShare(x, pools),
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
    const { res, x, gateway } = this.#parts
    if (this.#isParsing) free(x.body)
    // An error is small, and its caller may not be proven: it takes nothing from an account's share.
    sendError(res, x, error, readerLimits(gateway))
  }
}

/** The share of memory that this answer's unread bytes count in; none for operators. */
function unsentShare({ caller, route, ip }: Exchange, pools: Pools): Unsent | undefined {
  if (caller) return shareOf(pools.unsent, caller.ref)
  const isStranger = route.access === 'anybody'
  return isStranger ? shareOf(pools.unsentToStrangers, networkOf(ip)) : undefined
}

function readerLimits({ config, metrics }: Gateway): ReaderLimits {
  return {
    readerStallMs: config.limits.readerStallMs,
    onDrop: () => metrics.readersDropped.inc(),
  }
}

/** The label of an answer that is written bit by bit, for the metrics. */
function kindOf(answer: Answer, { access }: Route): 'download' | 'session' | 'chat' {
  if ('content' in answer) return 'download'
  return access === 'sessions' ? 'session' : 'chat'
}
