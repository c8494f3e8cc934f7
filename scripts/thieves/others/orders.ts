// The messages between the processes of an attack: what the honest customer and the attackers are ordered to do, and what
// they report.

/** The order for the customer: send the usual requests for a while. */
export interface Measure {
  readonly url: string
  /** The key of an account with money and high limits. */
  readonly key: string
  /** The key of another account, with usual limits; it asks for lists only. */
  readonly quietKey: string
  readonly session: string
  readonly ms: number
}

export interface Measured {
  readonly requests: number
  /** Latencies of small requests, until the last byte, sorted. */
  readonly latenciesMs: readonly number[]
  /** What went wrong, with how often. */
  readonly failures: Readonly<Record<string, number>>
}

/** The order for an attacker. `prepare` comes first and is not measured. */
export interface Assault {
  readonly attack: string
  readonly step: 'prepare' | 'run'
  readonly urls: readonly [string, string]
  /** Keys of accounts without money. */
  readonly poorKeys: readonly string[]
  /** The key of an account with money. */
  readonly richKey: string
  /** The account's part of the quiet customer's key, and a revoked key of that customer. */
  readonly victimRef: string
  readonly revokedKey: string
  readonly ms: number
}

/** What the gateway answered, with how often: `402 insufficient_balance`. */
export type Answers = Readonly<Record<string, number>>

export function count(counts: Record<string, number>, what: string): void {
  counts[what] = (counts[what] ?? 0) + 1
}
