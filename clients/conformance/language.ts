// What the runner needs to know of a client library: whether and how it can be built here, and its own checks.

/** A real gateway with the model `demo`, for programs that need one. */
export interface Gate {
  readonly baseURL: string
  readonly apiKey: string
}

export interface Driver {
  readonly command: string
  readonly words: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

export interface Language {
  readonly name: string
  /** The tools that are missing on this machine; empty when all are there. */
  missing(): Promise<readonly string[]>
  /** Installs and builds client and driver in a cache keyed by their sources. Rejects with the tool's output. */
  driver(): Promise<Driver>
  /** Static checks, docs, the package: in this order, one at a time. Each rejects with the tool's output. */
  readonly checks: Readonly<Record<string, (gate: Gate) => Promise<void>>>
}
