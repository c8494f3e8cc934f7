// A request as it comes in: an exchange of which only the head is known. If the router refuses the request, its route
// answers with the refusal, so that the refusal too has an id, a log line and what plugins add to every answer.

import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { asGatewayError } from '../errors.ts'
import { answering } from '../exchange.ts'
import type { Caller, Claim, Exchange, Facts, Granted, Identity, Route, Want } from '../exchange.ts'
import type { Router } from './router.ts'
import { parseTarget } from './target.ts'
import type { RequestTarget } from './target.ts'
import { newId } from '../ids.ts'

export interface Ways {
  readonly router: Router
  readonly addressOf: (req: IncomingMessage) => string
}

const nothing = Buffer.alloc(0)

/** All fields are set from the beginning, so that all exchanges have one shape for the JavaScript engine. */
export class Arrival implements Exchange {
  readonly id = newId('req')
  readonly arrivedAt = performance.now()
  readonly replyHeaders: Record<string, string> = {}
  readonly facts: Facts = {}
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
  want: Want | undefined = undefined
  granted: Granted | undefined = undefined
  meter: Exchange['meter'] = undefined
  stop: Exchange['stop'] = undefined
  finishesAlone = false
  work: Promise<unknown> | undefined = undefined
  written: Promise<void> | undefined = undefined
  #body: Buffer = nothing
  #hasLeft = false
  /** Made at the first use of `left`: most exchanges never need it. */
  #leaving: AbortController | undefined

  constructor(
    req: IncomingMessage,
    { router, addressOf }: Ways,
    { signal, memory }: Pick<Exchange, 'signal' | 'memory'>,
  ) {
    const { path, query, route, params } = find(req, router)
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
  hold(body: Buffer): void {
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

  /** Called when the client closed before the answer was complete. */
  leave(): void {
    this.#hasLeft = true
    this.#leaving?.abort()
  }
}

function find(req: IncomingMessage, router: Router) {
  let target: RequestTarget = { path: '', query: new URLSearchParams() }
  try {
    target = parseTarget(req)
    return { ...target, ...router.find(req.method ?? '', target.path) }
  } catch (error) {
    return { ...target, route: refusing(error), params: {} }
  }
}

function refusing(thrown: unknown): Route {
  const error = asGatewayError(thrown)
  const begin = answering(() => Promise.reject(error))
  return { method: 'GET', path: 'none', access: 'anybody', body: 'none', begin }
}
