// Installs Debian's packages for the tools in this folder: as root, with a notice before, and not with
// TOLLGATE_INSTALL=no.

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Throws when installing is switched off or not possible. */
export async function installPackage(name: string): Promise<void> {
  if (process.env.TOLLGATE_INSTALL === 'no') throw new Error('TOLLGATE_INSTALL=no')
  if (process.getuid?.() !== 0) throw new Error('only root installs packages')
  process.stderr.write(`Installing ${name} as root with apt-get (not with TOLLGATE_INSTALL=no) …\n`)
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  // A slim image has no package lists.
  await run('apt-get', ['-q', 'update'], { env })
  // Two tests may install at the same time: the second waits for the first.
  const words = ['-o', 'DPkg::Lock::Timeout=300', '-y', '--no-install-recommends']
  await run('apt-get', ['-q', 'install', ...words, name], { env })
}
