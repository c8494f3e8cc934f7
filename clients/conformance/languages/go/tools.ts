// The go command and its tools. Nothing is written beside the sources; what is made of them is kept under a hash of them.

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readFile, readdir, rename, rm } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { promisify } from 'node:util'
import { cacheFolder, isThere } from '../../../../scripts/model-server/python.ts'

const run = promisify(execFile)
const staticcheck = { path: 'honnef.co/go/tools/cmd/staticcheck', version: 'v0.8.2' } as const

export const home = join(import.meta.dirname, '../../../go')

export interface Where {
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
}

/** What it printed; rejects with the tool's words. */
export async function outputOf(
  program: string,
  words: readonly string[],
  { cwd = home, env = {} }: Where = {},
): Promise<string> {
  const own = { GOFLAGS: '-buildvcs=false -p=2', GOTOOLCHAIN: 'local', GOWORK: 'off' }
  try {
    const options = { cwd, env: { ...process.env, ...own, ...env }, maxBuffer: 64 << 20 }
    return (await run(program, words, options)).stdout.trim()
  } catch (cause) {
    const { stdout = '', stderr = '' } = cause as { stdout?: string; stderr?: string }
    throw new Error(`${program} ${words.join(' ')}:\n${stdout}${stderr}`, { cause })
  }
}

export async function inHome(program: string, words: readonly string[]): Promise<void> {
  await outputOf(program, words)
}

/** A program of the client's sources. */
export async function ensureBuilt(directory: string): Promise<string> {
  const hash = createHash('sha256').update(directory)
  for (const file of await sources()) {
    hash.update(`\0${relative(home, file)}\0`).update(await readFile(file))
  }
  const program = join(cacheFolder(), `clients-go-${hash.digest('hex').slice(0, 12)}`)
  return ensure(program, async (fresh) => {
    await inHome('go', ['build', '-o', join(fresh, 'program'), directory])
    return 'program'
  })
}

export async function ensureStaticcheck(): Promise<string> {
  const { path, version } = staticcheck
  return ensure(join(cacheFolder(), `staticcheck-${version}`), async (fresh) => {
    await outputOf('go', ['install', `${path}@${version}`], { cwd: fresh, env: { GOBIN: fresh } })
    return 'staticcheck'
  })
}

/** Made beside it and renamed when whole: two that start at once do not meet, and a half one is never used. */
async function ensure(program: string, make: (folder: string) => Promise<string>): Promise<string> {
  if (await isThere(program)) return program
  await mkdir(cacheFolder(), { recursive: true })
  const folder = await mkdtemp(join(cacheFolder(), 'go-'))
  try {
    await rename(join(folder, await make(folder)), program)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  return program
}

async function sources(): Promise<readonly string[]> {
  const entries = await readdir(home, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile() && /\.(go|mod)$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted()
}
