// What a worker is told when it starts.

import type { FileContents } from '../config/read-files.ts'
import type { WorkerPlace } from '../config/workers.ts'

/** Set in a worker's environment. */
export const taskVariable = 'TOLLGATE_WORKER'

export interface WorkerTask extends WorkerPlace {
  readonly file: string
  /** The port of the others; without it, the worker takes that of the configuration. */
  readonly port: number | undefined
  /** Of the embedded Redis, if there is one. */
  readonly redisSocket: string | undefined
  readonly format: 'json' | 'pretty'
  /** The files as the supervisor has read them, by path: all workers have the same configuration. */
  readonly contents: FileContents
}
