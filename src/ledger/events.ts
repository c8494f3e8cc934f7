// What the ledger reports to the metrics and the log.

/** Called in the middle of requests: must be quick and must not throw. */
export interface LedgerEvents {
  command?(script: string, seconds: number): void
  reaped?(count: number): void
  /** A backend reported so many balance tokens more than its request can have used. */
  implausible?(report: ImplausibleReport): void
  late?(): void
  /** The disk refuses ledger writes: orders that need it wait in memory. */
  spoolFailed?(cause: unknown): void
  spoolWorks?(failedMs: number): void
  problem?(message: string, cause: unknown): void
}

export interface ImplausibleReport {
  readonly requestId: string
  readonly model: string
  readonly tokens: number
}
