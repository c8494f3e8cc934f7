// Locks a folder or a name for one process of this machine. The lock ends with its process, however the process ends.

import { createHash } from 'node:crypto'
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { realpath, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { hasCode } from '../errors.ts'

export interface Lock {
  release(): Promise<void>
}

/** Throws when another gateway on this machine has the lock. */
export async function lockDataFolder(
  dir: string,
  { platform = process.platform }: { readonly platform?: NodeJS.Platform } = {},
): Promise<Lock> {
  const real = await realpath(dir)
  const hash = createHash('sha256').update(real).digest('hex').slice(0, 32)
  const lock = platform === 'linux' ? await tryLockName(`tollgate-${hash}`) : tryLockFile(real)
  if (lock) return lock
  throw new Error(`another gateway uses the data folder ${real}. Stop it, or set another \`data\`.`)
}

/** Returns undefined when another process has the name. The lock is an abstract unix socket: the kernel gives it to one process, and frees it when that process ends. Linux only. */
export function tryLockName(name: string): Promise<Lock | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy())
    server.once('error', (error: NodeJS.ErrnoException) =>
      error.code === 'EADDRINUSE' ? resolve(undefined) : reject(error),
    )
    server.listen(`\0${name}`, () => {
      server.unref()
      resolve({ release: () => new Promise((done) => server.close(() => done())) })
    })
  })
}

/** On other systems: a file with the owner's pid. It is taken over when its owner has gone. */
function tryLockFile(dir: string): Lock | undefined {
  const path = join(dir, 'lock')
  const mine = `${path}.${process.pid}`
  try {
    writeFileSync(mine, String(process.pid))
    const owner = readOwner(path)
    if (owner !== undefined && isRunning(owner)) return undefined
    if (owner !== undefined) rmSync(path, { force: true })
    linkSync(mine, path) // fails when another process was quicker
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return undefined
    throw error
  } finally {
    rmSync(mine, { force: true })
  }
  return { release: () => rm(path, { force: true }) }
}

function readOwner(path: string): number | undefined {
  try {
    return Number(readFileSync(path, 'utf8'))
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  }
}

/** Whether the process exists, even if it is another user's. */
export function isRunning(pid: number): boolean {
  if (!(pid > 0)) return false // a power cut can leave an empty file, read as 0; kill(0) would mean this process' group
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return hasCode(error, 'EPERM')
  }
}

/**
 * A text that distinguishes a process from others with the same pid: after a restart of the machine, or in a container,
 * where each gateway has pid 1. Returns '' when the system does not tell.
 */
export function processStart(pid: number): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').slice(0, 8)
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The 22nd field is the start in ticks since the boot. Fields are counted after the program's name, which may have
    // any characters.
    const ticks = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
    return `${boot}.${ticks}`
  } catch {
    return ''
  }
}
