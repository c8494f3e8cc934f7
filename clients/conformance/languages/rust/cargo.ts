// Runs cargo for the Rust client: with at most two jobs, and everything that it builds in one folder of the cache.

import { join } from 'node:path'
import { cacheFolder } from '../../../../scripts/cache.ts'
import { folderOf, outputOf } from '../tools.ts'
import type { Place } from '../tools.ts'

export const home = folderOf('rust')
export const target = join(cacheFolder(), 'rust')
/** The version that Cargo.toml declares. */
export const oldest = [1, 86] as const

/** Resolves with cargo's output, and rejects with it. */
export function cargo(
  words: readonly string[],
  { cwd = home, env = {} }: Place = {},
): Promise<string> {
  const always = { CARGO_TARGET_DIR: target, CARGO_BUILD_JOBS: '2', CARGO_TERM_COLOR: 'never' }
  return outputOf('cargo', words, { cwd, env: { ...always, ...env } })
}
