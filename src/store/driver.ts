// What a kind of store declares: the keys of its block under `store:` in gateway.yaml, and how it is opened. Whatever else
// the gateway has to know of it is asked here, so that a new kind is a file with one of these, and a row in drivers.ts.

import type { z } from '../config/schema.ts'
import type { ObjectStore } from './store.ts'

export interface StoreDriver<Settings = unknown> {
  /** Its block, with a sentence for itself and for each key. What comes out of it is what the other functions get. */
  readonly keys: z.ZodType<Settings>
  open(settings: Settings, options: DriverOptions): ObjectStore | Promise<ObjectStore>
  /** The most memory that an upload takes besides its socket's, whatever its length; by default none. */
  uploadBytes?(settings: Settings): number
  /** Texts that must never be logged. */
  secrets?(settings: Settings): readonly string[]
}

export interface DriverOptions {
  /** For a trial: no call takes longer. By default a call is tried as long as the driver likes. */
  readonly trialMs?: number | undefined
}
