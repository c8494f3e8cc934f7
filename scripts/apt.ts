// Installs Debian's packages for the tools in this folder: as root, with a notice before, and not with
// TOLLGATE_INSTALL=no.

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Run by one process at a time. Debian starts the service of a package that it installs, unless this file refuses it. */
const script = `
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  trap "rm -f $policy" EXIT
  trap 'exit 1' HUP INT TERM
  printf '#!/bin/sh\\nexit 101\\n' > $policy
  chmod 755 $policy
fi
# A slim image has no package lists.
apt-get -q update && apt-get -q install -y --no-install-recommends "$0"`

/** Throws when installing is switched off or not possible. */
export async function installPackage(name: string): Promise<void> {
  if (process.env.TOLLGATE_INSTALL === 'no') throw new Error('TOLLGATE_INSTALL=no')
  if (process.getuid?.() !== 0) throw new Error('only root installs packages')
  process.stderr.write(`Installing ${name} as root with apt-get (not with TOLLGATE_INSTALL=no) …\n`)
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  await run('flock', ['/usr/bin/apt-get', 'sh', '-c', script, name], { env })
}

/** Installs its package, of the same name by default, if there is no such program. */
export async function ensureProgram(program: string, packageName = program): Promise<void> {
  await run('which', [program]).catch(() => installPackage(packageName))
}
