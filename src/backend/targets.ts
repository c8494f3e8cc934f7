// Which target of a model is asked: of those that are not known to fail, those of the lowest priority; of these, two
// are drawn by weight, and the less busy one is asked, so that a slow target gets less. Where all are full, requests
// wait. Where all are known to fail, one whose breaker is open is tried once a second, and one that only fails its
// health check is asked. This file knows what is under way at each target in this process, also after a reload: a
// target whose address, model, headers and credential stay the same keeps its state. It does not decide when to go on
// to another target.

import type { Model, Target } from '../config/config.ts'
import { GatewayError } from '../errors.ts'
import { ModelState, TargetState } from './target-state.ts'

/** One attempt's request at a target. */
export class Seat {
  /** As it is configured now: a reload may change the state's target. */
  readonly target: Target
  readonly #state: TargetState
  readonly #candidates: Candidates
  /** Its number as a probe of the breaker; 0: it is none. */
  readonly #probe: number
  #isTaken = true
  #isJudged = false

  constructor(state: TargetState, candidates: Candidates) {
    this.target = state.target
    this.#state = state
    this.#candidates = candidates
    this.#probe = state.breaker.begin(candidates.account)
    state.open++
    candidates.model.open++
  }

  /** Called when nothing of the request is under way any more; calling it again has no further effect. */
  release(): void {
    this.leave()
    this.#candidates.model.serve()
  }

  /** The same, but the caller then serves those that wait. */
  leave(): void {
    if (!this.#isTaken) return
    this.#isTaken = false
    this.#state.open--
    this.#candidates.model.open--
    this.#state.breaker.release(this.#probe)
  }

  /** The first content came: a probe has succeeded. */
  answered(): void {
    this.#candidates.prove()
    if (this.#probe === 0) return
    this.#state.breaker.answered(this.#probe)
    this.#candidates.model.serve()
  }

  /**
   * The target has answered as it should. One of `succeeded`, `refused`, `failed`, `suspected` and `loads` is called
   * for an attempt, or none, when somebody else has ended it. Only the first call counts.
   */
  succeeded(): void {
    if (!this.#judge()) return
    this.#candidates.prove()
    this.#state.breaker.succeeded(this.#probe)
  }

  /** The target is well, and has refused the request. So what failed elsewhere may be the request's fault, too. */
  refused(): void {
    if (this.#judge()) this.#state.breaker.succeeded(this.#probe)
  }

  /** No request can have caused this failure: the target was not reached, or says itself that it is not available. */
  failed(): void {
    if (this.#judge()) this.#state.breaker.failed(this.#probe)
  }

  /** The request may have caused this failure. */
  suspected(): void {
    if (!this.#judge()) return
    const { breaker } = this.#state
    const isCounted = breaker.suspected(this.#candidates.account, this.#probe)
    if (!isCounted) this.#candidates.doubt(() => breaker.failed(this.#probe))
  }

  /** It loads its model: no failure. */
  loads(): void {
    if (this.#judge()) this.#state.loads()
  }

  #judge(): boolean {
    const isFirst = !this.#isJudged
    this.#isJudged = true
    return isFirst
  }
}

interface Asker {
  /** The ref of the account that asks. */
  readonly account: string
  readonly random: () => number
}

/** The targets that one generation has not asked yet. */
export class Candidates {
  readonly account: string
  readonly model: ModelState
  readonly #all: readonly TargetState[]
  readonly #left: TargetState[]
  readonly #random: () => number
  readonly #since = performance.now()
  #doubts: (() => void)[] = []
  #waitsUntil: number | undefined

  constructor(model: ModelState, states: readonly TargetState[], { account, random }: Asker) {
    this.model = model
    this.#all = states
    this.#left = [...states]
    this.account = account
    this.#random = random
  }

  /** Whether there is a target that was not asked. */
  get hasMore(): boolean {
    return this.#left.length > 0
  }

  /**
   * A seat at the target to ask next; undefined when there is none now. `before` is the seat of the attempt that has
   * failed: its place is given up first, so the new seat may take it.
   */
  next(before?: Seat): Seat | undefined {
    if (!before) this.model.serve()
    before?.leave()
    const seat = this.#take()
    if (before) this.model.serve()
    return seat
  }

  /** Waits for room. Rejects with `upstream_unavailable` when no target may be asked, or none has room in time. */
  async wait(signal: AbortSignal): Promise<Seat> {
    // A second, and not `waitMs`: a probe that is under way may close the breaker long before the next probe is due.
    if (this.waitMs > 0) throw new GatewayError('upstream_unavailable', { retryAfterMs: 1000 })
    const { account, model } = this
    // All waits of a generation share one time limit, and one place in the line.
    const until = (this.#waitsUntil ??= performance.now() + model.model.queue.waitMs)
    const since = this.#since
    const waiting = model.line.wait({ account, since, signal, until, take: () => this.#take() })
    // A cool-down may have ended since next(): where nothing is under way, nobody else would serve the line.
    model.serve()
    return await waiting
  }

  #take(): Seat | undefined {
    if (this.model.isFull) return undefined
    const free = this.#askable().filter(({ isFull }) => !isFull)
    const ready = free.length > 1 ? free.filter(({ isLoading }) => !isLoading) : free
    const state = chosen(ready.length > 0 ? ready : free, this.#random)
    if (!state) return undefined
    this.#left.splice(this.#left.indexOf(state), 1)
    return new Seat(state, this)
  }

  /** ms until the first of the targets that are left may be asked; 0: it may now. */
  get waitMs(): number {
    return Math.min(...this.#waits())
  }

  #askable(): readonly TargetState[] {
    const waits = this.#waits()
    return this.#left.filter((_, i) => waits[i] === 0)
  }

  /** ms until each target that is left may be asked. */
  #waits(): readonly number[] {
    const { account } = this
    const isLast = this.#isLastResort()
    return this.#left.map((state) =>
      isLast ? state.breaker.lastResortMs(account) : state.waitMs(account),
    )
  }

  /**
   * Whether all targets of the model should be left alone now. They are then asked all the same; one whose breaker is
   * open, once a second.
   */
  #isLastResort(): boolean {
    return this.#all.every((state) => state.waitMs(this.account) > 0)
  }

  /** `count` is called when this generation succeeds elsewhere. */
  doubt(count: () => void): void {
    this.#doubts.push(count)
  }

  prove(): void {
    if (this.#doubts.length === 0) return
    for (const count of this.#doubts) count()
    this.#doubts = []
  }
}

/** Made once by the gateway. */
export class Targets {
  /** By `stateKey`. */
  readonly #states = new Map<string, TargetState>()
  /** By id. */
  readonly #models = new Map<string, ModelState>()
  readonly #known = new WeakMap<Model, readonly TargetState[]>()
  readonly #random: () => number

  constructor(random: () => number = Math.random) {
    this.#random = random
  }

  /** To be called once for each generation; `account` is the ref of the account that asks. */
  candidatesFor(model: Model, account: string): Candidates {
    const states = this.statesOf(model)
    return new Candidates(this.modelStateOf(model), states, { account, random: this.#random })
  }

  modelStateOf(model: Model): ModelState {
    const known = this.#models.get(model.id)
    if (known) return known
    const state = new ModelState(model)
    this.#models.set(model.id, state)
    return state
  }

  /** In the order of the configuration. */
  statesOf(model: Model): readonly TargetState[] {
    const known = this.#known.get(model)
    if (known) return known
    const seen = new Map<string, number>()
    const states = model.targets.map((target) => {
      const name = stateKey(model, target)
      const nth = (seen.get(name) ?? 0) + 1
      seen.set(name, nth)
      return this.#stateOf(`${nth} ${name}`, target)
    })
    this.#known.set(model, states)
    const modelState = this.modelStateOf(model)
    modelState.model = model
    modelState.serve()
    return states
  }

  /** `models` by id. Forgets all other models and targets; requests that run keep theirs. */
  keep(models: ReadonlyMap<string, Model>): void {
    const kept = new Set([...models.values()].flatMap((model) => this.statesOf(model)))
    for (const [key, state] of this.#states) if (!kept.has(state)) this.#states.delete(key)
    for (const id of this.#models.keys()) if (!models.has(id)) this.#models.delete(id)
  }

  #stateOf(key: string, target: Target): TargetState {
    const known = this.#states.get(key)
    if (known) {
      known.target = target
      return known
    }
    const state = new TargetState(target)
    this.#states.set(key, state)
    return state
  }
}

/** What makes two targets of two configurations the same. */
function stateKey({ id }: Model, { url, model, key, keyHeader, headers }: Target): string {
  return JSON.stringify([id, url, model, key, keyHeader, headers])
}

/** Of two targets of the lowest priority, drawn by weight, the one with fewer requests under way for its weight. */
function chosen(states: readonly TargetState[], random: () => number): TargetState | undefined {
  if (states.length <= 1) return states[0]
  const lowest = Math.min(...states.map(({ target }) => target.priority))
  const tier = states.filter(({ target }) => target.priority === lowest)
  const first = drawn(tier, random)
  const second = drawn(
    tier.filter((state) => state !== first),
    random,
  )
  if (!first || !second) return first
  return loadOf(second) < loadOf(first) ? second : first
}

function loadOf({ open, target }: TargetState): number {
  return open / target.weight
}

function drawn(states: readonly TargetState[], random: () => number): TargetState | undefined {
  if (states.length <= 1) return states[0]
  let point = random() * states.reduce((sum, { target }) => sum + target.weight, 0)
  return states.find(({ target }) => (point -= target.weight) < 0) ?? states[0]
}
