// Whether a file system has room for more files. The append-only file of Redis is
// mostly on the same one: a full file system would stop all accounts. The check
// is made once a second, so bytes of one second may use up some of the reserve.

import { statfs } from 'node:fs/promises'
import { GatewayError } from '../errors.ts'

export interface DiskRoom {
  /** Throws `storage_unavailable`. Returns undefined when the last check was less than a second ago. */
  check(): Promise<void> | undefined
}

const lookEveryMs = 1000

/** For the file system of the folder, which must exist before the first check. */
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

/** Undefined when the system does not tell. */
async function freeBytes(folder: string): Promise<number | undefined> {
  try {
    const { bavail, bsize } = await statfs(folder)
    return bavail * bsize
  } catch {
    return undefined
  }
}
