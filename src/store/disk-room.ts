// Whether a file system has room for more files. Redis' append-only file mostly stands on the same one: files that fill
// it would stop all accounts. What is written within a second of a look may go below the reserve, no more.

import { statfs } from 'node:fs/promises'
import { GatewayError } from '../errors.ts'

export interface DiskRoom {
  /** Throws `storage_unavailable`. Undefined where it was looked at just now. */
  check(): Promise<void> | undefined
}

const lookEveryMs = 1000

/** Of the file system that the folder is on, once the folder is there. */
export function createDiskRoom(folder: string, reserveBytes: number): DiskRoom {
  let lookedAt = -Infinity
  return {
    check() {
      if (reserveBytes === 0 || performance.now() - lookedAt < lookEveryMs) return undefined
      return look(folder, reserveBytes).then(() => void (lookedAt = performance.now()))
    },
  }
}

async function look(folder: string, reserveBytes: number): Promise<void> {
  const free = await freeBytes(folder)
  if (free !== undefined && free < reserveBytes) {
    const cause = new Error(`${free} bytes are free, and ${reserveBytes} are kept for others`)
    throw new GatewayError('storage_unavailable', { cause })
  }
}

/** Undefined where the system does not tell. */
async function freeBytes(folder: string): Promise<number | undefined> {
  try {
    const { bavail, bsize } = await statfs(folder)
    return bavail * bsize
  } catch {
    return undefined
  }
}
