// A Python with packages, in a virtual environment that is made once and kept. Needs python3 with venv, which root on
// Debian and Ubuntu gets by itself, and the package index the first time. Knows nothing of models.

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { installPackage } from '../apt.ts'
import { ensureMade, fingerprint } from '../cache.ts'

const run = promisify(execFile)

/** `packages` as pip takes them, versions pinned. Answers the interpreter's path. */
export async function ensurePython(packages: readonly string[]): Promise<string> {
  const folder = await ensureMade(`python-${fingerprint(packages)}`, async (fresh) => {
    const venv = () => run('python3', ['-m', 'venv', '--clear', fresh])
    await venv().catch(async (cause: unknown) => {
      await installVenv(cause)
      await venv()
    })
    const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...packages]
    await run(join(fresh, 'bin', 'python'), pip)
  })
  return join(folder, 'bin', 'python')
}

/** Debian has the module in a package of its own. */
async function installVenv(cause: unknown): Promise<void> {
  await installPackage('python3-venv').catch(() => {
    throw new Error('python3 with its venv module is needed (Debian: apt install python3-venv)', {
      cause,
    })
  })
}
