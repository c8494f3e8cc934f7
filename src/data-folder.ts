// The data folder: made private, held by one gateway at a time, and home of the admin token.
// It does not know what else lies in it.

import { createHash, randomBytes } from 'node:crypto'
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { chmod, link, mkdir, open, readFile, realpath, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'

export interface Lock {
  release(): Promise<void>
}

/** The folder and those above it; only its owner may look inside. */
export async function ensureDataFolder(dir: string): Promise<void> {
  const made = await mkdir(dir, { recursive: true, mode: 0o700 })
  // One that was there before keeps its mode when it is not ours to change (a mounted volume).
  if (made === undefined) await chmod(dir, 0o700).catch(() => undefined)
}

/** Throws when another gateway on this machine has it. The lock goes with the process, however that ends. */
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

/** An abstract unix socket: the kernel gives it to one process, and takes it back when that ends. Linux only. */
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

/** Elsewhere: a file with the owner's pid, taken over from an owner that has gone. */
function tryLockFile(dir: string): Lock | undefined {
  const path = join(dir, 'lock')
  const mine = `${path}.${process.pid}`
  writeFileSync(mine, String(process.pid))
  try {
    const owner = readOwner(path)
    if (owner !== undefined && isAlive(owner)) return undefined
    if (owner !== undefined) rmSync(path, { force: true })
    linkSync(mine, path) // fails when another was quicker
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

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return hasCode(error, 'EPERM')
  }
}

/** The token given, or the folder's own, made at the first start and readable by its owner alone. */
export async function ensureAdminToken(dir: string, given: string): Promise<string> {
  if (given !== '') return given
  const path = join(dir, 'admin-token')
  const fresh = join(dir, `.admin-token-${randomBytes(6).toString('hex')}`)
  try {
    const file = await open(fresh, 'wx', 0o600)
    await file.writeFile(`${randomBytes(32).toString('base64url')}\n`)
    await file.sync()
    await file.close()
    await link(fresh, path).catch((error: unknown) => {
      if (!hasCode(error, 'EEXIST')) throw error
    })
  } finally {
    await rm(fresh, { force: true })
  }
  const token = (await readFile(path, 'utf8')).trim()
  if (token === '') throw new Error(`${path} is empty. Remove it, and a new token is made.`)
  return token
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
