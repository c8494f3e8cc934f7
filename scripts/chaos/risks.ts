// When Redis may have forgotten writes that it had acknowledged. A replica that takes over has no more than what its
// primary had sent to it, so a fail-over may lose the newest writes. The ledger sends its writes again
// (docs/money.md, 8), so a charge is lost only when the gateway that keeps it is killed before it has done so. Nothing
// else may be lost, and nothing that was acknowledged at another time.

/** In ms of performance.now(). */
export interface Span {
  readonly from: number
  readonly to: number
}

export interface FailOver {
  /** What was acknowledged within these times may be lost. */
  readonly atRisk: readonly Span[]
  /** When the old primary followed the new one, which every gateway could reach then. */
  readonly healedAt: number
  /** It was the aim of a fault. Others come from a machine that is too busy. */
  readonly isPlanned: boolean
}

/** How long a gateway may take to find the next primary and to send its writes again. */
const replayMs = 10_000

export class Risks {
  readonly #failOvers: FailOver[] = []
  readonly #kills: { readonly gateway: string; readonly at: number }[] = []

  get failOvers(): readonly FailOver[] {
    return this.#failOvers
  }

  add(failOver: FailOver): void {
    this.#failOvers.push(failOver)
  }

  /** A process of this gateway was killed, with what it kept in memory. */
  killed(gateway: string): void {
    this.#kills.push({ gateway, at: performance.now() })
  }

  /** Whether a write that was acknowledged within this time may be lost. */
  mayForget(span: Span): boolean {
    return this.#failOvers.some(({ atRisk }) => overlapAny(atRisk, span))
  }

  /** Whether the charge of what this gateway did within this time may be lost. */
  mayForgetCharge(gateway: string, span: Span): boolean {
    return this.#failOvers.some(({ atRisk, healedAt }) => {
      if (!overlapAny(atRisk, span)) return false
      const keeping = { from: span.from, to: healedAt + replayMs }
      return this.#kills.some((one) => one.gateway === gateway && within(one.at, keeping))
    })
  }
}

const within = (at: number, { from, to }: Span): boolean => from <= at && at <= to

const overlapAny = (some: readonly Span[], { from, to }: Span): boolean =>
  some.some((one) => one.from <= to && from <= one.to)
