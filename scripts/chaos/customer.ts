// What all customers have: an account, a gateway by chance for each call, and a list of what must not happen.

import { randomBytes, randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Account } from '../../test/fixtures/gateway.ts'
import type { Random } from '../../test/fixtures/random.ts'
import { call } from './call.ts'
import type { Called, Calling } from './call.ts'
import type { Outcomes } from './outcomes.ts'
import type { Span } from './risks.ts'
import type { World } from './world.ts'

/** A call, with where and when it was answered. */
export interface Answered extends Called {
  /** The name of the gateway. */
  readonly gateway: string
  readonly at: Span
}

/** A chat session, and when it was made. */
export interface Session {
  readonly id: string
  readonly made: Span
}

export class Customer {
  readonly world: World
  readonly account: Account
  readonly random: Random
  readonly #outcomes: Outcomes
  /** Promises that were broken. */
  readonly broken: string[] = []
  /** What a fail-over of Redis has lost, as it may. */
  readonly lost: string[] = []
  readonly #suspects: { readonly what: string; readonly promise: string; readonly at: Span }[] = []

  constructor(world: World, account: Account, { random, outcomes }: Surroundings) {
    this.world = world
    this.account = account
    this.random = random
    this.#outcomes = outcomes
  }

  /** Calls any gateway. */
  async call(path: string, calling: Omit<Calling, 'key'> = {}): Promise<Answered> {
    const { places } = this.world
    const place = places[this.random(places.length)]
    const url = `${place?.gateway.url}${path}`
    const from = performance.now()
    const called = await call(url, { ...calling, key: this.account.key })
    this.#judge(path, called, calling.leavesAfter !== undefined)
    return { ...called, gateway: place?.name ?? '', at: { from, to: performance.now() } }
  }

  /** Calls until a gateway answers with one of these. */
  async callUntil(
    statuses: readonly number[],
    path: string,
    calling: Omit<Calling, 'key'> = {},
  ): Promise<Answered> {
    const endsAt = performance.now() + 120_000
    for (;;) {
      const called = await this.call(path, calling)
      if (called.isWhole && statuses.includes(called.status)) return called
      if (performance.now() > endsAt) {
        const last = `${called.status} ${called.bytes.toString().slice(0, 300)}`
        throw new Error(
          `${path} was never answered by ${statuses.join(' or ')}, at last by ${last}`,
        )
      }
      await this.rest()
    }
  }

  async newSession(): Promise<Session> {
    const from = performance.now()
    const headers = { 'idempotency-key': randomUUID() }
    const made = await this.callUntil([201], '/api/chat/sessions', { body: {}, headers })
    const { id } = JSON.parse(made.bytes.toString()) as { readonly id: string }
    return { id, made: { from, to: performance.now() } }
  }

  rest(): Promise<void> {
    return pause(50 + this.random(150))
  }

  breaks(promise: string): void {
    this.broken.push(promise)
  }

  /** A promise that is broken unless what was acknowledged at this time may be lost; `what` names it in the count of such losses. */
  misses(what: string, promise: string, at: Span): void {
    this.#suspects.push({ what, promise, at })
  }

  /** Judges what is missing, when all fail-overs are known. */
  judgeMissing(): void {
    for (const { what, promise, at } of this.#suspects.splice(0)) {
      if (this.world.risks.mayForget(at)) this.lost.push(what)
      else this.breaks(promise)
    }
  }

  #judge(path: string, called: Called, leaves: boolean): void {
    const { status, headers, isWhole } = called
    const outcome = this.#outcomes.note(called, leaves)
    if (status === 503 && isWhole && headers['retry-after'] === undefined) {
      this.breaks(`${path}: ${outcome} without Retry-After`)
    }
    if (!known.has(status))
      this.breaks(`${path}: ${outcome} ${called.bytes.toString().slice(0, 300)}`)
  }
}

/** 409: another try of the same message is being answered. 410: frames were lost, which whoever reads them judges. */
const known = new Set([0, 200, 201, 204, 404, 409, 410, 502, 503, 504])

export interface Surroundings {
  readonly random: Random
  readonly outcomes: Outcomes
}

/** A new trace id, under which the backend counts the truth, and its header. */
export function newTrace(): { readonly trace: string; readonly traceparent: string } {
  const trace = randomBytes(16).toString('hex')
  return { trace, traceparent: `00-${trace}-00000000000000a1-01` }
}
