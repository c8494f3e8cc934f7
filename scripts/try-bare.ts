// `npm run try:bare`: makes, in a folder, a Debian 12 with only its base packages, Node 20 and npm; runs in it this
// repository's last commit with README's first command, and a stream. It shows that a fresh clone needs no compiler,
// library or cache of the developer's machine. Needs root, Linux, and debootstrap, which it installs on Debian and
// Ubuntu. Everything that it starts ends with it, because the machine has process ids of its own.

import { execFile, spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { ensureNodeDebian } from './debian.ts'

const run = promisify(execFile)
const root = resolve(import.meta.dirname, '..')
const versions = { node: '20.20.2', npm: '10.8.2' }
/** If `npm start` prints nothing for this long, it hangs. */
const startMs = 180_000

await using undo = new AsyncDisposableStack()
const base = await ensureNodeDebian(versions)
const machine = await mkdtemp(join(tmpdir(), 'tollgate-bare-'))
undo.defer(() => rm(machine, { recursive: true, force: true }))
await run('cp', ['-a', `${base}/.`, machine])
await addRepository(machine)

console.log('npm ci && npm start')
const child = enter(machine, 'cd /srv/tollgate && npm ci --no-progress && exec npm start')
undo.defer(() => ended(child))
const { url, key } = await started(child)
const text = await chat(url, key)
const isGood = text.endsWith('data: [DONE]\n\n') && text.includes('"content"')
console.log(
  isGood ? 'ok: a stream came whole on a bare machine' : `failed: the stream was\n${text}`,
)
process.exitCode = isGood ? 0 : 1

/** Adds the last commit, as a clone has it, with free ports and with this machine's proxy settings. */
async function addRepository(machine: string): Promise<void> {
  const target = join(machine, 'srv/tollgate')
  await mkdir(target, { recursive: true })
  const archive = join(machine, 'tmp/tollgate.tar')
  await run('git', ['-C', root, 'archive', '--output', archive, 'HEAD'])
  await run('tar', ['xf', archive, '-C', target])
  const file = join(target, 'gateway.yaml')
  const yaml = await readFile(file, 'utf8')
  const free = yaml.replace('listen: 8080', 'listen: 0').replace('127.0.0.1:9090', '127.0.0.1:0')
  await writeFile(file, free)
  await copyFile('/etc/resolv.conf', join(machine, 'etc/resolv.conf'))
  const certificates = process.env.NODE_EXTRA_CA_CERTS
  if (certificates) await copyFile(certificates, join(machine, 'etc/extra-ca.pem'))
}

/** Runs a shell command in the machine, with only the environment that a new machine has. */
function enter(machine: string, command: string): ChildProcess {
  const env = {
    PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    HOME: '/root',
    ...(process.env.NODE_EXTRA_CA_CERTS && { NODE_EXTRA_CA_CERTS: '/etc/extra-ca.pem' }),
    ...(process.env.npm_config_registry && {
      npm_config_registry: process.env.npm_config_registry,
    }),
  }
  const mounted = 'mount -t proc proc "$0/proc" && exec chroot "$0" /bin/sh -c "$1"'
  const own = ['--mount', '--pid', '--fork', '--kill-child', 'sh', '-c', mounted]
  return spawn('/usr/bin/unshare', [...own, machine, command], {
    env,
    stdio: ['ignore', 'inherit', 'pipe'],
  })
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGKILL')
  await exited
}

/** Reads what the first start prints: its address, and the demo account's key. */
async function started(child: ChildProcess): Promise<{ url: string; key: string }> {
  const timer = setTimeout(() => child.kill('SIGKILL'), startMs)
  let url: string | undefined
  if (!child.stderr) throw new Error('the machine was started without a pipe')
  for await (const line of createInterface({ input: child.stderr })) {
    console.log(`  ${line}`)
    url ??= /listening on (http:\S+?),/.exec(line)?.[1]
    const key = /^\s*(tg_live_\w+)\s*$/.exec(line)?.[1]
    if (!url || !key) continue
    clearTimeout(timer)
    child.stderr.resume()
    return { url, key }
  }
  throw new Error('npm start ended, or said no key in time')
}

async function chat(url: string, key: string): Promise<string> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'demo',
      stream: true,
      messages: [{ role: 'user', content: 'Hello!' }],
    }),
    signal: AbortSignal.timeout(30_000),
  })
  return response.text()
}
