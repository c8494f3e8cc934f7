// cargo, at work on the Rust client: at most two jobs, everything it builds in one folder of the cache.

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cacheFolder } from '../../../../scripts/model-server/python.ts'

const run = promisify(execFile)

export const home = join(import.meta.dirname, '../../../rust')
export const target = join(cacheFolder(), 'rust')
/** As Cargo.toml promises. */
export const oldest = [1, 86] as const

interface Where {
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
}

/** What it wrote. Rejects with its words. */
export async function cargo(
  words: readonly string[],
  { cwd = home, env = {} }: Where = {},
): Promise<string> {
  const always = { CARGO_TARGET_DIR: target, CARGO_BUILD_JOBS: '2', CARGO_TERM_COLOR: 'never' }
  const options = { cwd, env: { ...process.env, ...always, ...env }, maxBuffer: 64 << 20 }
  const { stdout } = await run('cargo', words, options)
  return stdout
}
