// What the runner needs to know of a client library: whether it can be built here, how, and its own checks.

/** A real gateway with the model `demo`, for what is to be run against one. */
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
  /** Tools that are not on this machine, in words; none: an empty list. */
  missing(): Promise<readonly string[]>
  /** Installs and builds client and driver in a cache keyed by their sources. Rejects with the tool's words. */
  driver(): Promise<Driver>
  /** Static checks, docs, the package. Each rejects with the tool's words. In this order, one at a time. */
  readonly checks: Readonly<Record<string, (gate: Gate) => Promise<void>>>
}
