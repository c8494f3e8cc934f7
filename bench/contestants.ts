// The three proxies, started in front of one backend: nginx, Portkey's gateway, and this gateway with everything on.
// Each can be stopped and started again, as the memory measure needs; its address stays the same.

import type { ChildProcess } from 'node:child_process'
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { basename, join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { startCommand } from '../scripts/start-command.ts'
import type { BareKind } from './bare.ts'
import type { Aim } from './load.ts'
import { proxyCore, start, stop, withChildren } from './processes.ts'
import type { Redis } from './redis.ts'

export type Name = 'nginx' | 'Portkey' | 'Tollgate'

export interface Contestant<N extends string = string> {
  readonly name: N
  readonly aim: Aim
  pids(): readonly number[]
  restart(): Promise<void>
  stop(): Promise<void>
}

export interface Ground {
  /** A temporary folder. nginx's worker runs as another user and must be able to read it. */
  readonly folder: string
  readonly backendPort: number
  /** How many files a process may have open. */
  readonly files: number
  /** Further lines of gateway.yaml. */
  readonly more?: string
  /** The checkout of the gateway; this one if unset. */
  readonly tree?: string
}

const here = import.meta.dirname
const path = '/v1/chat/completions'

export async function startNginx({
  folder,
  backendPort,
  files,
}: Ground): Promise<Contestant<'nginx'>> {
  ensureNginx()
  const port = await freePort()
  const values = { folder, files, port, backend: backendPort }
  chmodSync(folder, 0o755)
  const launch = launchNginx('nginx.conf.template', values)
  return contestant('nginx', { port, path, headers: [''] }, launch)
}

/** An nginx for files: serves and stores them in `folder`. `copyingPort`: the same without sendfile. */
export async function startFileNginx(
  folder: string,
): Promise<Contestant<'nginx'> & { readonly copyingPort: number }> {
  ensureNginx()
  const [port, copyingPort] = [await freePort(), await freePort()]
  const launch = launchNginx('nginx-files.conf.template', { folder, port, copyingPort })
  const one = await contestant('nginx', { port, path, headers: [''] }, launch)
  return { ...one, copyingPort }
}

type NginxValues = Readonly<Record<string, string | number>> & { readonly folder: string }

function launchNginx(template: string, values: NginxValues): () => ChildProcess {
  const text = readFileSync(join(here, template), 'utf8')
  const file = join(values.folder, 'nginx.conf')
  const conf = text.replace(/\{\{(\w+)\}\}/g, (_, name: string) => String(values[name]))
  writeFileSync(file, conf)
  return () => start(['nginx', '-p', values.folder, '-c', file], { core: proxyCore })
}

export async function startPortkey({
  folder,
  backendPort,
}: Ground): Promise<Contestant<'Portkey'>> {
  ensurePortkey()
  const port = await freePort()
  const script = join(here, 'node_modules/@portkey-ai/gateway/build/start-server.js')
  const command = [process.execPath, script, '--headless', `--port=${port}`]
  const headers = [
    'Authorization: Bearer bench',
    'x-portkey-provider: openai',
    `x-portkey-custom-host: http://127.0.0.1:${backendPort}/v1`,
  ]
  const output = openSync(join(folder, 'portkey.log'), 'a')
  const env = { NODE_ENV: 'production' }
  const launch = () => start(command, { core: proxyCore, output, env })
  return contestant('Portkey', { port, path, headers: [`${headers.join('\r\n')}\r\n`] }, launch)
}

/** A proxy of bare.ts, which does nothing for a request but hand it on. */
export async function startBare<N extends BareKind>(
  kind: N,
  { backendPort }: Ground,
  redis: Redis,
): Promise<Contestant<N>> {
  const port = await freePort()
  const script = join(here, 'bare.ts')
  const command = [process.execPath, script, kind, `${port}`, `${backendPort}`, redis.socket]
  return contestant(kind, { port, path, headers: [''] }, () => start(command, { core: proxyCore }))
}

export interface Tollgate extends Contestant<'Tollgate'> {
  readonly adminPort: number
  readonly adminToken: string
  readonly accounts: readonly string[]
  readonly logFile: string
}

const accountCount = 10

/** `profile`: a folder that gets a CPU profile when the gateway stops. */
export async function startTollgate(
  ground: Ground,
  redis: Redis,
  profile?: string,
): Promise<Tollgate> {
  const { folder } = ground
  const [port, adminPort] = [await freePort(), await freePort()]
  const adminToken = 'bench-admin-token-of-a-decent-length'
  const file = join(folder, 'gateway.yaml')
  writeFileSync(file, gatewayYaml({ ...ground, port, adminPort, adminToken, redis }))
  const logFile = join(folder, 'gateway.log')
  const output = openSync(logFile, 'a')
  const flags = profile ? ['--cpu-prof', `--cpu-prof-dir=${profile}`] : []
  const command = [...startCommand(flags, ground.tree), '--config', file]
  const headers: string[] = []
  const launch = () => start(command, { core: proxyCore, output })
  const one = await contestant('Tollgate', { port, path, headers }, launch)
  const accounts: string[] = []
  for (let n = 0; n < accountCount; n++) {
    const { account, key } = await fundedAccount(
      { adminPort, adminToken },
      `${basename(folder)}-${n}`,
    )
    accounts.push(account)
    headers.push(`Authorization: Bearer ${key}\r\n`)
  }
  return { ...one, adminPort, adminToken, accounts, logFile }
}

interface Settings extends Ground {
  readonly port: number
  readonly adminPort: number
  readonly adminToken: string
  readonly redis: Redis
}

/** Everything is on. The plan's limits are still checked, but are too high to be reached. */
function gatewayYaml({
  folder,
  backendPort,
  port,
  adminPort,
  adminToken,
  redis,
  more = '',
}: Settings): string {
  return `
listen: { host: 127.0.0.1, port: ${port} }
admin: { listen: "127.0.0.1:${adminPort}", token: ${adminToken} }
data: ${folder}/data
redis: unix://${redis.socket}
models:
  bench:
    targets: [{ url: "http://127.0.0.1:${backendPort}/v1" }]
    price: { input: 1, output: 4 }
    context_window: 4000000
    max_output_tokens: 2000000
plans:
  default: { requests_per_minute: 1000000000, tokens_per_minute: 1000000000000, concurrency: 100000, storage: 1TiB }
log: { level: info, format: json }
drain: 5s
${more}`
}

export interface AdminDoor {
  readonly adminPort: number
  readonly adminToken: string
}

async function fundedAccount(door: AdminDoor, name: string) {
  const { id } = await admin<{ id: string }>(door, 'accounts', { name })
  await admin(door, `accounts/${id}/topup`, { amount: 1e14 })
  const { key } = await admin<{ key: string }>(door, `accounts/${id}/keys`, { name: 'bench' })
  return { account: id, key }
}

export async function admin<T>(door: AdminDoor, what: string, body?: object): Promise<T> {
  const answer = await fetch(`http://127.0.0.1:${door.adminPort}/admin/${what}`, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: `Bearer ${door.adminToken}`, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`admin API, ${what}: ${answer.status} ${text}`)
  return JSON.parse(text) as T
}

async function contestant<N extends string>(
  name: N,
  aim: Aim,
  launch: () => ChildProcess,
): Promise<Contestant<N>> {
  let child = launch()
  await listens(name, aim.port, child)
  return {
    name,
    aim,
    pids: () => withChildren(child.pid ?? 0),
    async restart() {
      await stop(child)
      child = launch()
      await listens(name, aim.port, child)
    },
    stop: () => stop(child),
  }
}

/** Tries to connect without HTTP: a request would reach the backend and be missing from the books. */
async function listens(name: string, port: number, child: ChildProcess): Promise<void> {
  const deadline = performance.now() + 120_000
  for (;;) {
    if (child.exitCode !== null) throw new Error(`${name} ended at once (exit ${child.exitCode})`)
    if (performance.now() > deadline) throw new Error(`${name} does not listen`)
    const isUp = await new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1', () => resolve(true))
      socket.once('error', () => resolve(false))
      socket.once('connect', () => socket.destroy())
    })
    if (isUp) return
    await wait(50)
  }
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  return typeof address === 'object' && address ? address.port : 0
}

function ensureNginx(): void {
  try {
    execFileSync('nginx', ['-v'], { stdio: 'ignore' })
  } catch {
    process.stderr.write('installing nginx\n')
    execFileSync('apt-get', ['update'], { stdio: 'ignore' })
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' }
    const install = ['install', '-y', '--no-install-recommends', 'nginx']
    execFileSync('apt-get', install, { stdio: 'ignore', env })
  }
}

/** Installs without scripts: Portkey's own script patches packages for its development. */
function ensurePortkey(): void {
  if (existsSync(join(here, 'node_modules/@portkey-ai/gateway'))) return
  process.stderr.write('installing the other gateway into bench/node_modules\n')
  mkdirSync(join(here, 'node_modules'), { recursive: true })
  execFileSync('npm', ['ci', '--prefix', here, '--ignore-scripts'], { stdio: 'inherit' })
}
