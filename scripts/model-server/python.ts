// A Python with packages, in a virtual environment that is made once and kept. Needs python3 with venv, which root on
// Debian and Ubuntu gets by itself, and the package index the first time. Knows nothing of models.

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { access, mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Where what is made once is kept between runs. */
export function cacheFolder(): string {
  const home = process.env.XDG_CACHE_HOME
  if (home) return join(home, 'tollgate')
  return resolve(import.meta.dirname, '../../node_modules/.cache/tollgate')
}

/** `packages` as pip takes them, versions pinned. Answers the interpreter's path. */
export async function ensurePython(packages: readonly string[], cache: string): Promise<string> {
  const hash = createHash('sha256').update(packages.join('\n')).digest('hex').slice(0, 12)
  const folder = join(cache, `python-${hash}`)
  const python = join(folder, 'bin', 'python')
  if (await isThere(python)) return python
  await mkdir(cache, { recursive: true })
  // Made beside it and renamed when whole: two that start at once do not meet, and a half one is never used.
  const fresh = await mkdtemp(join(cache, 'python-'))
  try {
    const venv = () => run('python3', ['-m', 'venv', '--clear', fresh])
    await venv().catch(async (cause: unknown) => {
      await installVenv(cause)
      await venv()
    })
    const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...packages]
    await run(join(fresh, 'bin', 'python'), pip)
    await rename(fresh, folder).catch(async (error: unknown) => {
      if (!(await isThere(python))) throw error
    })
  } finally {
    await rm(fresh, { recursive: true, force: true })
  }
  return python
}

/** Debian has the module in a package of its own, and a slim image no package lists. */
async function installVenv(cause: unknown): Promise<void> {
  const apt = (...words: readonly string[]) => run('apt-get', ['-q', ...words])
  try {
    if (process.getuid?.() !== 0) throw cause
    await apt('update')
    await apt('install', '-y', '--no-install-recommends', 'python3-venv')
  } catch {
    throw new Error('python3 with its venv module is needed (Debian: apt install python3-venv)', {
      cause,
    })
  }
}

export async function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
