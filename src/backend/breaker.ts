// Keeps requests away from a target that fails. Closed: all requests go through. After a number of failures in a row it
// opens, and during the cool-down no request goes through. Then one does, the probe: content closes the breaker, a
// failure opens it again. The first cool-down lasts a second, because most failures are short; each next one lasts
// twice as long, up to the bound. Where no other target can be asked, a second is enough after each failed probe.
//
//   closed ── failures in a row ──▶ open ── cool-down ──▶ half-open ── the probe fails ──▶ open
//      ▲                                                      └──── the probe has content ──▶ closed
//
// A failure that the request may have caused counts only once a second account has one, too, or once the same request
// has succeeded elsewhere: otherwise a customer could shut a target for all others. A probe may also end without saying
// anything (as when its client leaves). Once an account has sent such a probe, its further probes keep no other account
// out: otherwise a customer could keep the breaker half-open. Times are ms of `performance.now()`.

export interface BreakerSettings {
  /** This many failures in a row open it. */
  readonly failures: number
  /** The longest cool-down. */
  readonly coolDownMs: number
}

const firstCoolDownMs = 1000

export class Breaker {
  readonly #settings: () => BreakerSettings
  #failures = 0
  #openedAt: number | undefined
  /** When the probe that is under way was sent. */
  #probedAt: number | undefined
  /** The account that sent the probe. */
  #prober = ''
  /** Accounts with a probe that ended or hung without saying anything, since the breaker was last closed. */
  readonly #silent = new Set<string>()
  /** The number of the newest probe. */
  #probe = 0
  /** How many probes have failed or hung since the last success. */
  #lostProbes = 0
  /** The first account with a failure that its request may have caused, since the last success. */
  #suspect: string | undefined
  #hasSeveralSuspects = false

  constructor(settings: () => BreakerSettings) {
    this.#settings = settings
  }

  get state(): 'closed' | 'open' | 'half_open' {
    if (this.#openedAt === undefined) return 'closed'
    return performance.now() < this.#openedAt + this.#coolDownMs ? 'open' : 'half_open'
  }

  /** Failures in a row. */
  get failures(): number {
    return this.#failures
  }

  /** ms until a request of this account may go through; 0: it may now. */
  waitMs(account: string): number {
    return this.#waitMs(account, Infinity)
  }

  /** The same where no other target can be asked. */
  lastResortMs(account: string): number {
    return this.#waitMs(account, firstCoolDownMs)
  }

  /** A request of this account goes through. Returns the number of the probe that it is; 0: it is none. */
  begin(account: string): number {
    if (this.#openedAt === undefined) return 0
    if (this.#isProbedFor(account)) {
      this.#lostProbes++
      this.#silent.add(this.#prober)
    }
    this.#probedAt = performance.now()
    this.#prober = account
    return ++this.#probe
  }

  /** The request is over. A probe about which nothing was said may be followed by another one. */
  release(probe: number): void {
    if (probe !== this.#probe || this.#probedAt === undefined) return
    this.#probedAt = undefined
    this.#silent.add(this.#prober)
  }

  /**
   * The request has content, which closes the breaker. The answer may still fail: then the next cool-down is as long as
   * if there had been no content.
   */
  answered(probe: number): void {
    if (probe > 0) this.#close()
  }

  succeeded(probe: number): void {
    // A request that was sent before the failures says nothing about the time after them.
    if (this.#openedAt !== undefined && probe === 0) return
    this.#close()
    this.#lostProbes = 0
    // A probe that still runs counts from now on as any other request.
    this.#probe++
  }

  failed(probe: number): void {
    this.#failures++
    const isEnough = this.#openedAt === undefined && this.#failures >= this.#settings().failures
    // After a probe that hung, another one has been sent, which says more.
    const isNewest = probe > 0 && probe === this.#probe
    if (!isEnough && !isNewest) return
    if (isNewest) this.#lostProbes++
    this.#openedAt = performance.now()
    this.#probedAt = undefined
  }

  /** A failure that the request of this account may have caused. Returns whether it counts. */
  suspected(account: string, probe: number): boolean {
    this.#suspect ??= account
    if (this.#suspect !== account) this.#hasSeveralSuspects = true
    if (this.#hasSeveralSuspects) this.failed(probe)
    return this.#hasSeveralSuspects
  }

  #close(): void {
    this.#openedAt = undefined
    this.#probedAt = undefined
    this.#failures = 0
    this.#suspect = undefined
    this.#hasSeveralSuspects = false
    this.#silent.clear()
  }

  /**
   * Whether this account has to wait for the probe that is under way. It need not wait for an account whose earlier
   * probes have said nothing, unless the same is true of its own.
   */
  #isProbedFor(account: string): boolean {
    if (this.#probedAt === undefined) return false
    return !this.#silent.has(this.#prober) || this.#silent.has(account)
  }

  get #coolDownMs(): number {
    return Math.min(firstCoolDownMs * 2 ** this.#lostProbes, this.#settings().coolDownMs)
  }

  #waitMs(account: string, longestMs: number): number {
    if (this.#openedAt === undefined) return 0
    const coolDownMs = this.#coolDownMs
    const coolAt = this.#openedAt + Math.min(coolDownMs, longestMs)
    // A probe that hangs does not keep others out for ever.
    const probedAt = this.#isProbedFor(account) ? (this.#probedAt ?? 0) + coolDownMs : 0
    return Math.max(0, Math.max(coolAt, probedAt) - performance.now())
  }
}
