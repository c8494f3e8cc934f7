// Finds a program that runs as a redis-server. If there is none, fetches one on Debian and Ubuntu: as root by apt-get
// install, else by unpacking Debian's packages into the data folder; with TOLLGATE_INSTALL=no, neither. Every step has
// a time limit; if all fail, the error says what to install. It starts no server.

import { execFile } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { chmod, mkdir, mkdtemp, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import { tryLockName } from '../../data/lock.ts'
import type { Log } from '../../log.ts'

const run = promisify(execFile)

/** Resolves with the path of a redis-server. `dataDir` must exist. */
export async function findRedisServer(
  dataDir: string,
  { log }: { readonly log: Pick<Log, 'info'> },
): Promise<string> {
  const named = process.env.REDIS_SERVER
  if (named) {
    if (await isServer(named)) return named
    throw new Error(`REDIS_SERVER=${named} does not run as a redis-server`)
  }
  return (await findInstalled(dataDir)) ?? (await fetchOnce(dataDir, log))
}

async function findInstalled(dataDir: string): Promise<string | undefined> {
  const own = join(dataDir, 'bin', 'redis-server')
  for (const path of [onPath('redis-server'), onPath('valkey-server'), own]) {
    if (path && (await isServer(path))) return path
  }
  const tool = onPath('redis-check-rdb')
  // Debian's redis-server is a symlink to redis-check-rdb: the program acts by the name that it is started with.
  return tool && placeServer(dataDir, (path) => symlink(tool, path))
}

/** Makes `<data>/bin/redis-server` under another name first, so that a second process never sees half of it. */
async function placeServer(
  dataDir: string,
  make: (path: string) => Promise<void>,
): Promise<string | undefined> {
  const bin = join(dataDir, 'bin')
  await mkdir(bin, { recursive: true, mode: 0o700 })
  const fresh = await mkdtemp(join(bin, '.new-'))
  try {
    const path = join(fresh, 'redis-server')
    await make(path)
    if (!(await isServer(path))) return undefined
    await rename(path, join(bin, 'redis-server'))
    return join(bin, 'redis-server')
  } finally {
    await rm(fresh, { recursive: true, force: true })
  }
}

async function isServer(path: string): Promise<boolean> {
  try {
    const { stdout } = await run(path, ['--version'], { timeout: 10_000 })
    return /\b(redis|valkey) server v/i.test(stdout)
  } catch {
    return false // not there, not executable, or something else by that name
  }
}

function onPath(name: string): string | undefined {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const path = join(folder || '.', name)
    try {
      accessSync(path, constants.X_OK)
      return path
    } catch {
      continue // the usual case: not in this folder
    }
  }
  return undefined
}

/** Lets one process of this user fetch at a time: the lock of apt's lists fails instead of waiting. */
async function fetchOnce(dataDir: string, log: Pick<Log, 'info'>): Promise<string> {
  if (process.env.TOLLGATE_INSTALL === 'no') throw notFound()
  if (!onPath('apt-get') || !onPath('dpkg')) throw notFound()
  const deadline = performance.now() + 400_000
  let lock = await tryLockName(`tollgate-apt-${process.getuid?.()}`)
  while (!lock && performance.now() < deadline) {
    await wait(200)
    lock = await tryLockName(`tollgate-apt-${process.getuid?.()}`)
  }
  try {
    const found = (await findInstalled(dataDir)) ?? (await fetchServer(dataDir, log))
    if (found) return found
  } catch (cause) {
    throw notFound(cause)
  } finally {
    await lock?.release()
  }
  throw notFound()
}

async function fetchServer(dataDir: string, log: Pick<Log, 'info'>): Promise<string | undefined> {
  if (process.getuid?.() === 0) {
    log.info({}, `No redis-server found: installing redis-tools as root with apt-get ${orNot}`)
    await installTools()
    return findInstalled(dataDir)
  }
  log.info({}, `No redis-server found: unpacking Debian's redis-tools into ${dataDir} ${orNot}`)
  return unpackTools(dataDir)
}

const orNot = '(TOLLGATE_INSTALL=no prevents it)'

async function installTools(): Promise<void> {
  const args = ['install', '-y', '--no-install-recommends', 'redis-tools']
  try {
    await apt(args, 120_000)
  } catch {
    await apt(['update'], 120_000) // a fresh image has no package lists
    await apt(args, 120_000)
  }
}

async function apt(args: readonly string[], timeout: number, cwd?: string): Promise<void> {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  await run('apt-get', ['-q', '-o', 'DPkg::Lock::Timeout=100', ...args], { timeout, env, cwd })
}

/** Without root: unpacks all packages into one folder, and writes a script that starts the server with their libraries. */
async function unpackTools(dataDir: string): Promise<string | undefined> {
  const bin = join(dataDir, 'bin')
  await mkdir(bin, { recursive: true, mode: 0o700 })
  const root = join(bin, 'redis-tools')
  const fresh = await mkdtemp(join(bin, '.download-'))
  try {
    await downloadTools(fresh)
    await rm(root, { recursive: true, force: true })
    for (const name of await readdir(fresh)) {
      if (name.endsWith('.deb'))
        await run('dpkg', ['-x', join(fresh, name), root], { timeout: 60_000 })
    }
  } finally {
    await rm(fresh, { recursive: true, force: true })
  }
  await symlink('redis-check-rdb', join(root, 'usr/bin/redis-server'))
  return placeServer(dataDir, async (path) => {
    await writeFile(path, startScript(root))
    await chmod(path, 0o755)
  })
}

async function downloadTools(folder: string): Promise<void> {
  const needed = ['download', 'redis-tools', 'liblzf1', 'libjemalloc2']
  let own: readonly string[] = []
  try {
    await apt(needed, 120_000, folder)
  } catch {
    // The system has no package lists, and only root may update them: use lists in this folder.
    const lists = join(folder, 'apt')
    await mkdir(join(lists, 'lists/partial'), { recursive: true })
    own = ['-o', `Dir::State=${lists}`, '-o', `Dir::Cache=${lists}`]
    await apt([...own, 'update'], 120_000)
    await apt([...own, ...needed], 120_000, folder)
  }
  // Most machines have these libraries already, and each Debian has only some of the names (Debian 13 renamed libssl3).
  for (const name of ['libssl3', 'libssl3t64', 'libatomic1', 'libsystemd0']) {
    await apt([...own, 'download', name], 60_000, folder).catch(() => undefined)
  }
}

function startScript(root: string): string {
  const quoted = `'${root.replaceAll("'", `'\\''`)}'`
  return `#!/bin/sh
root=${quoted}
for folder in "$root"/lib/*-linux-* "$root"/usr/lib/*-linux-*; do
  LD_LIBRARY_PATH=$folder\${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
done
export LD_LIBRARY_PATH
exec "$root/usr/bin/redis-server" "$@"
`
}

function notFound(cause?: unknown): Error {
  const lines = [
    'no redis-server was found, and none could be fetched. Install one:',
    '  Debian, Ubuntu  apt-get install redis-server',
    '  Fedora          dnf install valkey',
    '  Alpine          apk add redis',
    '  macOS           brew install redis',
    'or name one by $REDIS_SERVER, or run one in Docker and set `redis: redis://127.0.0.1:6379` in gateway.yaml:',
    '  docker run -d -p 127.0.0.1:6379:6379 redis:7 redis-server --appendonly yes',
  ]
  return new Error(lines.join('\n'), { cause })
}
