// What is made once and kept between runs: packages of other languages, programs built of sources.

import { createHash } from 'node:crypto'
import { access, mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'

export function cacheFolder(): string {
  const home = process.env.XDG_CACHE_HOME
  if (home) return join(home, 'tollgate')
  return resolve(import.meta.dirname, '../node_modules/.cache/tollgate')
}

/** For such a name: other words for other texts. */
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
  if (await isThere(folder)) return folder
  await mkdir(cacheFolder(), { recursive: true })
  const fresh = await mkdtemp(`${folder}-`)
  try {
    await make(fresh)
    await rename(fresh, folder).catch(async (error: unknown) => {
      if (!(await isThere(folder))) throw error
    })
  } finally {
    await rm(fresh, { recursive: true, force: true })
  }
  return folder
}

async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
