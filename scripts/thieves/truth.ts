// What the backend did for each thief, by its own count: charges are compared with this truth. The thieves differ by
// the trace id, which gateways pass on.

import { isModelName, priceOf } from './models.ts'

/** Tokens that a backend may still generate after its client has left, until it stops. */
export const inFlightTokens = 100
/** Far more tokens than the strategies against a boundless backend ask for. */
export const runawayTokens = 1000

export class Truth {
  requests = 0
  prompt = 0
  completion = 0
  /** In balance tokens. */
  cost = 0
  /** Tokens generated after the thief had left: until the backend stopped, or because the gateway read on. */
  afterLeave = 0
  /** Parameters and addresses that must not reach the backend, but did. */
  readonly reached = new Set<string>()
  hasLeft = false
  /** Of answers whose reader has left before their end; part of `cost`. */
  readonly cut = { whole: { answers: 0, cost: 0 }, streamed: { answers: 0, cost: 0 } }
  readonly #made = Promise.withResolvers<void>()
  #running = 0
  #idle: (() => void)[] = []

  /** Resolves when the backend has generated all that was asked for, but has not answered yet. */
  get made(): Promise<void> {
    return this.#made.promise
  }

  isMade(): void {
    this.#made.resolve()
  }

  begin(): void {
    this.requests++
    this.#running++
  }

  end(): void {
    this.#running--
    if (this.#running === 0) for (const tell of this.#idle.splice(0)) tell()
  }

  /** Resolves when the backend no longer works for this thief. */
  idle(): Promise<void> {
    if (this.#running === 0) return Promise.resolve()
    return new Promise((resolve) => void this.#idle.push(resolve))
  }
}

export class Truths {
  readonly #byTrace = new Map<string, Truth>()

  of(trace: string): Truth {
    const there = this.#byTrace.get(trace)
    if (there) return there
    const made = new Truth()
    this.#byTrace.set(trace, made)
    return made
  }
}

/** What one request has used so far. */
export class Account {
  readonly #truth: Truth
  readonly #price: { readonly input: number; readonly output: number }
  #charged = 0
  prompt = 0
  completion = 0
  /** The price factor of this request's tokens: a dearer tier, or another model. */
  factor = 1

  constructor(truth: Truth, model: string) {
    this.#truth = truth
    this.#price = isModelName(model) ? priceOf(model) : { input: 1, output: 1 }
  }

  get hasLeft(): boolean {
    return this.#truth.hasLeft
  }

  get afterLeave(): number {
    return this.#truth.afterLeave
  }

  /** Called when the work has ended, and the reader had left before the end of the answer. */
  isCut(how: keyof Truth['cut']): void {
    const cut = this.#truth.cut[how]
    cut.answers++
    cut.cost += this.#charged
  }

  /** Called when all is generated: nothing more will be counted. */
  isMade(): void {
    this.#truth.isMade()
  }

  addPrompt(tokens: number): void {
    this.prompt += tokens
    this.#truth.prompt += tokens
    this.#charge()
  }

  addGenerated(tokens: number): void {
    this.completion += tokens
    this.#truth.completion += tokens
    if (this.#truth.hasLeft) this.#truth.afterLeave += tokens
    this.#charge()
  }

  /** Priced as a gateway does it: rounded up once for each request. */
  #charge(): void {
    const exact = this.prompt * this.#price.input + this.completion * this.#price.output
    const cost = Math.ceil(Number(exact.toFixed(6)) * this.factor)
    this.#truth.cost += cost - this.#charged
    this.#charged = cost
  }
}
