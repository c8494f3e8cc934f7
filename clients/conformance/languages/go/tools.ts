// The go command and its tools. Nothing is written beside the sources; built files are kept under a hash of the
// sources.

import { join } from 'node:path'
import { ensureMade } from '../../../../scripts/cache.ts'
import { folderOf, hashOf, outputOf as run } from '../tools.ts'
import type { Place } from '../tools.ts'

const staticcheck = { path: 'honnef.co/go/tools/cmd/staticcheck', version: 'v0.8.2' } as const

export const home = folderOf('go')

/** Resolves with the output; rejects with the tool's output. */
export function outputOf(
  program: string,
  words: readonly string[],
  { cwd = home, env = {}, ...place }: Place = {},
): Promise<string> {
  const own = { GOFLAGS: '-buildvcs=false -p=2', GOTOOLCHAIN: 'local', GOWORK: 'off' }
  return run(program, words, { ...place, cwd, env: { ...own, ...env } })
}

export async function inHome(program: string, words: readonly string[]): Promise<void> {
  await outputOf(program, words)
}

/** Builds the driver. */
export async function ensureBuilt(): Promise<string> {
  const folder = await ensureMade(`go-${await hashOf(home)}`, (fresh) =>
    inHome('go', ['build', '-o', join(fresh, 'driver'), './internal/conformance']),
  )
  return join(folder, 'driver')
}

export async function ensureStaticcheck(): Promise<string> {
  const { path, version } = staticcheck
  const folder = await ensureMade(`go-staticcheck-${version}`, (fresh) =>
    outputOf('go', ['install', `${path}@${version}`], { cwd: fresh, env: { GOBIN: fresh } }),
  )
  return join(folder, 'staticcheck')
}
