// Python's tools, each in an environment that is made once, and running them. What they write goes to the cache.

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { promisify } from 'node:util'
import { cacheFolder, ensurePython, isThere } from '../../../../scripts/model-server/python.ts'

export const home = resolve(import.meta.dirname, '../../../python')

const run = promisify(execFile)
const httpx = 'httpx==0.28.1'
const tools = ['mypy==2.4.1', 'ruff==0.17.6', 'pdoc==16.0.0', 'build==1.6.1', 'hatchling==1.33.0']
const pyright = 'pyright@1.1.414'
/** What hangs is ended. */
const timeout = 300_000

export interface Place {
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
}

/** An interpreter that has what the client needs, and nothing else. */
export function ensureRuntime(): Promise<string> {
  return ensurePython([httpx], cacheFolder())
}

/** One that has the tools too. */
export function ensureTools(): Promise<string> {
  return ensurePython([httpx, ...tools], cacheFolder())
}

/** Its program for Node. The package of the same name on Python's index would fetch a Node of its own. */
export async function ensurePyright(): Promise<string> {
  const folder = join(cacheFolder(), pyright.replace('@', '-'))
  await ensureMade(folder, async (fresh) => {
    await writeFile(join(fresh, 'package.json'), '{ "private": true }')
    const install = ['install', '--omit=optional', '--no-audit', '--no-fund', '--ignore-scripts']
    await outputOf('npm', [...install, pyright], { cwd: fresh })
  })
  return join(folder, 'node_modules/pyright/index.js')
}

/** Made beside it and renamed when whole: two that start at once do not meet, and a half one is never used. */
export async function ensureMade(
  folder: string,
  make: (fresh: string) => Promise<void>,
): Promise<void> {
  if (await isThere(folder)) return
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
}

/** The sources where they lie; bytecode in the cache. */
export function environment(): Readonly<Record<string, string>> {
  return {
    PYTHONPATH: join(home, 'src'),
    PYTHONPYCACHEPREFIX: join(cacheFolder(), 'python-bytecode'),
    PYTHONUTF8: '1',
  }
}

/** Rejects with what the tool said. */
export async function outputOf(
  program: string,
  words: readonly string[],
  { cwd = home, env = {} }: Place = {},
): Promise<string> {
  const { TOLLGATE_API_KEY: _key, TOLLGATE_BASE_URL: _url, ...inherited } = process.env
  const options = { cwd, env: { ...inherited, ...environment(), ...env }, timeout }
  const { stdout } = await run(program, words, options)
  return stdout.trim()
}

/** In a folder that is gone afterwards. */
export async function inFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-python-'))
  try {
    return await use(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Of the client's files, by what is in them. */
export async function hashOfSources(): Promise<string> {
  const entries = await readdir(home, { recursive: true, withFileTypes: true })
  const paths = entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .toSorted()
  const hash = createHash('sha256')
  for (const path of paths) hash.update(`${relative(home, path)}\0`).update(await readFile(path))
  return hash.digest('hex').slice(0, 12)
}
