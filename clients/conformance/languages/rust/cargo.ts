// cargo, at work on the Rust client: at most two jobs, everything it builds in one folder of the cache.

import { join } from 'node:path'
import { cacheFolder } from '../../../../scripts/cache.ts'
import { folderOf, outputOf } from '../tools.ts'
import type { Place } from '../tools.ts'

export const home = folderOf('rust')
export const target = join(cacheFolder(), 'rust')
/** As Cargo.toml promises. */
export const oldest = [1, 86] as const

/** What it wrote. Rejects with its words. */
export function cargo(
  words: readonly string[],
  { cwd = home, env = {} }: Place = {},
): Promise<string> {
  const always = { CARGO_TARGET_DIR: target, CARGO_BUILD_JOBS: '2', CARGO_TERM_COLOR: 'never' }
  return outputOf('cargo', words, { cwd, env: { ...always, ...env } })
}
