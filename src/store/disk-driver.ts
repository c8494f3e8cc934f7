// A folder as a store, as gateway.yaml has it under `store.disk`.

import { bytes, path, z } from '../config/schema.ts'
import { diskStore } from './disk.ts'
import type { StoreDriver } from './store.ts'

export interface DiskConfig {
  /** Absolute. */
  readonly path: string
  /** How much of the file system files must leave free; by default nothing. */
  readonly reserveBytes?: number
}

/** `reserve` has a default because the append-only file of Redis is mostly on the same file system, which must not become full. */
const keys = z
  .strictObject({
    path: path().describe('Folder for the files.'),
    reserve: bytes({ min: 0 })
      .prefault('1GiB')
      .describe('A file that would leave less free space on its file system is refused.'),
  })
  .transform(({ path, reserve }): DiskConfig => ({ path, reserveBytes: reserve }))
  .describe('Keeps files in a folder.')

export const disk = {
  keys,
  example: '{path: ./files}',
  open: ({ path, reserveBytes }) => diskStore(path, reserveBytes),
} satisfies StoreDriver<DiskConfig>
