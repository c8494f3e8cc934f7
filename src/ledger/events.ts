// What metrics and the log are told of the ledger.

/** Called in the middle of requests: must be quick and must not throw. */
export interface LedgerEvents {
  command?(script: string, seconds: number): void
  reaped?(count: number): void
  shortfall?(tokens: number): void
  late?(): void
  problem?(message: string, cause: unknown): void
}
