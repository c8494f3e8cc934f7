// What this process knows of a model's targets: how many requests are under way, whether the target is well, and what
// waits. It outlives a configuration (targets.ts finds it again).

import type { Model, Target } from '../config/config.ts'
import { GatewayError } from '../errors.ts'
import { Breaker } from './breaker.ts'
import { WaitingLine } from './waiting-line.ts'

/** What this process knows of one target. */
export class TargetState {
  /** As the newest configuration has it. */
  target: Target
  /** Requests under way. */
  open = 0
  /**
   * Its active check has found it unhealthy (health-check.ts): it is asked only where no target of its model is well.
   */
  isUnhealthy = false
  readonly breaker: Breaker = new Breaker(() => this.target.breaker)
  #loadsUntil = -Infinity
  #shown = 'up'
  #sinceMs = Date.now()

  constructor(target: Target) {
    this.target = target
  }

  /** It has said that it loads its model. It is asked again when others have failed, or after a moment. */
  get isLoading(): boolean {
    return this.#loadsUntil > performance.now()
  }

  /** Called when it has said that it loads; `forMs` is how long that is believed. */
  loads(forMs: number = loadingMs): void {
    this.#loadsUntil = Math.max(this.#loadsUntil, performance.now() + forMs)
  }

  hasLoaded(): void {
    this.#loadsUntil = -Infinity
  }

  /** ms until this account may ask it, if the model has another target that is well; 0: it may now. */
  waitMs(account: string): number {
    const checkMs = this.isUnhealthy ? (this.target.healthCheck?.intervalMs ?? 0) : 0
    return Math.max(this.breaker.waitMs(account), checkMs)
  }

  /** As many requests are under way as it may have. */
  get isFull(): boolean {
    const { maxConcurrency } = this.target
    return maxConcurrency !== undefined && this.open >= maxConcurrency
  }

  /** What operators see; `since` is in Unix seconds, as of the first look at this state. */
  show(): { state: string; since: number } {
    const shown = this.#shownNow
    if (shown !== this.#shown) this.#sinceMs = Date.now()
    this.#shown = shown
    return { state: shown, since: Math.floor(this.#sinceMs / 1000) }
  }

  get #shownNow(): string {
    const { state } = this.breaker
    // Its cool-down may be over: but a check that fails holds it back.
    if (this.isUnhealthy && state !== 'open') return 'unhealthy'
    if (state !== 'closed') return state
    return this.isLoading ? 'loading' : 'up'
  }
}

const loadingMs = 1000

/** What this process knows of a model: its targets, and what waits for them. */
export class ModelState {
  /** As the newest configuration has it. */
  model: Model
  /** Requests under way at all targets. */
  open = 0
  readonly line: WaitingLine = new WaitingLine(() => this.model.queue)

  constructor(model: Model) {
    this.model = model
  }

  get isFull(): boolean {
    const { maxConcurrency } = this.model
    return maxConcurrency !== undefined && this.open >= maxConcurrency
  }

  /** Called when there may be room. */
  serve(): void {
    if (this.line.size === 0) return
    this.line.serve()
    // Some wait although nothing is under way: no target may be asked now, and nothing will make room.
    if (this.open === 0) this.line.refuseAll(new GatewayError('upstream_unavailable'))
  }
}
