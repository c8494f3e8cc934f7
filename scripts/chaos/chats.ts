// Customers of /v1/chat/completions, streamed and not; some leave early. What was answered whole is charged as the
// backend counted it; nothing is charged that the backend did not do.

import type { Transaction } from '../../src/ledger/transaction.ts'
import { codeIn } from './call.ts'
import type { Called } from './call.ts'
import { Customer, newTrace } from './customer.ts'
import type { Span } from './risks.ts'

interface Asked {
  readonly trace: string
  /** Undefined when no headers came. */
  readonly requestId: string | undefined
  /** `whole`: to its proper end; `length`: stopped by the gateway; `ended`: with an error; `cut`: the gateway was gone. */
  readonly how: 'whole' | 'length' | 'ended' | 'refused' | 'cut' | 'left'
  readonly tokensSeen: number
  readonly gateway: string
  readonly at: Span
}

export class Chatter extends Customer {
  readonly #asked: Asked[] = []

  async live(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#ask()
      await this.rest()
    }
  }

  async #ask(): Promise<void> {
    const isStream = this.random(3) > 0
    const leaves = isStream && this.random(8) === 0
    const { trace, traceparent } = newTrace()
    const body = {
      model: 'end',
      messages: [{ role: 'user', content: 'word '.repeat(this.random(300)) }],
      max_tokens: 10 + this.random(isStream ? 800 : 200),
      user: 'gap:25',
      stream: isStream,
    }
    const calling = { body, headers: { traceparent } }
    const most = leaves ? { leavesAfter: 200 + this.random(10_000) } : {}
    const called = await this.call('/v1/chat/completions', { ...calling, ...most })
    const id = called.headers['x-request-id']
    this.#asked.push({
      trace,
      requestId: typeof id === 'string' ? id : undefined,
      how: howItEnded(called, isStream, leaves),
      tokensSeen: tokensIn(called),
      gateway: called.gateway,
      at: called.at,
    })
  }

  /** `entries`: all of the account. */
  verify(entries: readonly Transaction[]): void {
    const byRequest = Map.groupBy(entries, ({ request_id: id }) => id ?? '')
    for (const one of this.#asked) {
      this.sums.served += this.world.truths.of(one.trace).cost
      this.#verifyOne(one, byRequest.get(one.requestId ?? 'none') ?? [])
    }
    this.sums.charged = chargeOf(entries)
    // Answers of killed gateways are charged by their last checkpoint, most of them with less than was served.
    if (this.sums.charged > mostCounted(this.sums.served)) {
      this.breaks(`charged ${this.sums.charged} in all, the backend made ${this.sums.served}`)
    }
  }

  #verifyOne(asked: Asked, own: readonly Transaction[]): void {
    const { trace, requestId, how, tokensSeen, gateway, at } = asked
    const { cost, requests } = this.world.truths.of(trace)
    const charge = chargeOf(own)
    const isEstimated = own.some(({ estimated }) => estimated)
    const said = `${requestId} ${how}: ${tokensSeen} tokens came, the backend made ${cost}, charged ${JSON.stringify(own)}`
    // Another target has also worked, and is not paid.
    const isExact = requests === 1 && !isEstimated
    const least = how === 'whole' && isExact ? cost : how === 'ended' ? tokensSeen : 0
    if (charge < least) {
      // Kept in the memory of a gateway that was killed, and forgotten by Redis.
      if (this.world.risks.mayForgetCharge(gateway, at)) this.sums.lost += least - charge
      else this.breaks(`too little: ${said}`)
    }
    if (how === 'whole' && isExact && charge > cost) this.breaks(`more than was used: ${said}`)
    const most = how === 'cut' || how === 'left' ? mostEstimated : mostCounted
    if (charge > most(cost)) this.breaks(`too much: ${said}`)
  }

  /** `lost`: what a fail-over and a kill together have made free. */
  readonly sums = { charged: 0, served: 0, lost: 0 }
}

/** Where nothing was reported, a prompt is counted with a margin. */
export const mostCounted = (cost: number): number => 1.05 * cost + 32

/** A checkpoint, by which the answers of a killed gateway are charged, estimates from bytes. */
export const mostEstimated = (cost: number): number => 2.5 * cost + 32

export function chargeOf(entries: readonly Transaction[]): number {
  const own = entries.filter(({ type }) => type === 'charge' || type === 'correction')
  return own.reduce((sum, { amount, owed = 0 }) => sum - amount + owed, 0)
}

function howItEnded(called: Called, isStream: boolean, leaves: boolean): Asked['how'] {
  const { status, isWhole, bytes } = called
  if (status !== 200) return status === 0 || !isWhole ? 'cut' : 'refused'
  const text = bytes.toString('latin1')
  const isDone = isStream ? text.endsWith('data: [DONE]\n\n') : isWhole
  if (isDone) return text.includes('"finish_reason":"length"') ? 'length' : 'whole'
  if (leaves) return 'left'
  return isWhole && codeIn(called) !== '' ? 'ended' : 'cut'
}

/** Each word of the backend is a token, with a space before it. */
function tokensIn({ bytes }: Called): number {
  const texts = bytes.toString('latin1').matchAll(/"content":"((?: [a-z]+)+)"/g)
  return [...texts].reduce((sum, [, text = '']) => sum + text.split(' ').length - 1, 0)
}
