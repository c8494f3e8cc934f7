// Keeps what is made once and used by later runs: packages of other languages, and programs built from sources.

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readdir, rename, rm, stat, utimes } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'

/** Entries that were not used for this long are deleted when something new is made. */
const keptMs = 7 * 86_400_000

export function cacheFolder(): string {
  const home = process.env.XDG_CACHE_HOME
  if (home) return join(home, 'tollgate')
  return resolve(import.meta.dirname, '../node_modules/.cache/tollgate')
}

/** For the name of an entry: other texts give another fingerprint. */
export function fingerprint(texts: readonly string[]): string {
  return createHash('sha256').update(texts.join('\0')).digest('hex').slice(0, 12)
}

/**
 * A folder of that name with what `make` put into it; the name says what of. Made beside it and renamed when whole: two that
 * start at once do not meet, and a half one is never used.
 */
export async function ensureMade(
  name: string,
  make: (folder: string) => Promise<unknown>,
): Promise<string> {
  const folder = join(cacheFolder(), name)
  if (await touch(folder)) return folder
  await mkdir(cacheFolder(), { recursive: true })
  const fresh = await mkdtemp(`${folder}-`)
  try {
    await make(fresh)
    await rename(fresh, folder).catch(async (error: unknown) => {
      if (!(await touch(folder))) throw error
    })
  } finally {
    await rm(fresh, { recursive: true, force: true })
  }
  await prune()
  return folder
}

/** The folder of a package of npm, from its name and version. None of its scripts runs. */
export async function npmPackage(spec: string): Promise<string> {
  const made = await ensureMade(`npm-${fingerprint([spec])}`, async (made) => {
    console.log(`Fetching ${spec} from npm …`)
    const words = ['install', '--no-save', '--ignore-scripts', '--prefix', made, spec]
    await promisify(execFile)('npm', words)
  })
  return join(made, 'node_modules', spec.slice(0, spec.lastIndexOf('@')))
}

/** Marks the entry as used now. Resolves with false when it does not exist. */
async function touch(path: string): Promise<boolean> {
  const now = new Date()
  return utimes(path, now, now).then(
    () => true,
    () => false,
  )
}

/** Deletes old entries: whatever has a fingerprint in its name, complete or not. */
async function prune(): Promise<void> {
  const names = (await readdir(cacheFolder())).filter((name) => /-[0-9a-f]{12}\b/.test(name))
  for (const name of names) {
    const path = join(cacheFolder(), name)
    // Another run may have deleted it already.
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Infinity }))
    if (Date.now() - mtimeMs > keptMs) await rm(path, { recursive: true, force: true })
  }
}
