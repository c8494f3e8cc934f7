// The proxies of config/proxies/, each with the addresses of this machine in place of those in the file.

import { chmod, readFile, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join, resolve } from 'node:path'
import { freePort } from '../../test/fixtures/free-port.ts'
import { startProcess } from '../../test/fixtures/process.ts'
import type { Teardown } from '../../test/fixtures/teardown.ts'
import { tempDir } from '../../test/fixtures/temp-dir.ts'
import { until } from '../../test/fixtures/until.ts'
import { ensureProgram } from '../apt.ts'

/** Those that send a refused request to another gateway. */
export const proxyNames = ['nginx', 'haproxy'] as const
export const allProxyNames = [...proxyNames, 'caddy'] as const
export type ProxyName = (typeof allProxyNames)[number]

export interface Upstream {
  readonly port: number
  readonly adminPort: number
}

export interface ProxyOptions {
  readonly upstreams: readonly Upstream[]
  /** For HTTPS with HTTP/2, by the directives that the file names. Caddy always does this. */
  readonly tls?: { readonly certPath: string; readonly keyPath: string }
  /** In place of each hour in the file. */
  readonly timeout?: string
}

const folder = resolve(import.meta.dirname, '../../config/proxies')
const files = { nginx: 'nginx.conf', haproxy: 'haproxy.cfg', caddy: 'Caddyfile' } as const

export function readProxyFile(name: ProxyName): Promise<string> {
  return readFile(join(folder, files[name]), 'utf8')
}

/** Resolves with its URL. Installs the package if it is not there. */
export async function startProxy(
  t: Teardown,
  name: ProxyName,
  options: ProxyOptions,
): Promise<string> {
  await ensureProgram(name)
  const port = await freePort()
  const dir = await tempDir(t)
  // nginx's worker runs as another user.
  await chmod(dir, 0o755)
  const file = join(dir, `${name}.conf`)
  const text = (await readProxyFile(name)).replaceAll(/\b1h\b/g, options.timeout ?? '1h')
  await writeFile(file, await local[name](text, { ...options, port, dir }))
  const env = { ...process.env, XDG_DATA_HOME: dir, XDG_CONFIG_HOME: dir }
  const { log, stop } = startProcess(t, commands[name](file, dir), { env })
  // Killed, nginx would leave its workers behind.
  t.teardown(stop)
  await until(() => isOpen(port), 30_000).catch((error: unknown) => {
    throw new Error(`${name} does not start: ${log.join('\n')}`, { cause: error })
  })
  // The certificate's name is localhost.
  return options.tls ? `https://localhost:${port}` : `http://127.0.0.1:${port}`
}

const commands: Readonly<Record<ProxyName, (file: string, dir: string) => readonly string[]>> = {
  nginx: (file, dir) => ['nginx', '-p', dir, '-c', file, '-g', 'daemon off;'],
  haproxy: (file) => ['haproxy', '-f', file],
  caddy: (file) => ['caddy', 'run', '--adapter', 'caddyfile', '--config', file],
}

function isOpen(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = connect(port, '127.0.0.1', () => resolve(true))
  socket.once('error', () => resolve(false))
  return promise.finally(() => socket.destroy())
}

interface Here extends ProxyOptions {
  readonly port: number
  readonly dir: string
}

type Local = (text: string, here: Here) => string | Promise<string>

const local: Readonly<Record<ProxyName, Local>> = {
  nginx(text, { port, upstreams, dir, tls }) {
    const certificate =
      tls && `ssl_certificate ${tls.certPath}; ssl_certificate_key ${tls.keyPath};`
    return replaced(text, [
      [/\/run\/nginx\.pid/, `${dir}/nginx.pid`],
      tls
        ? [
            /listen 80; # for HTTPS: listen 443 (.*;) .*/,
            `listen 127.0.0.1:${port} $1 ${certificate}`,
          ]
        : [/listen 80;/, `listen 127.0.0.1:${port};`],
      [
        /server gateway1:8080(.*)\n *server gateway2:8080.*/,
        upstreams.map((one) => `server 127.0.0.1:${one.port}$1`).join('\n'),
      ],
    ])
  },
  async haproxy(text, { port, upstreams, dir, tls }) {
    const pem = join(dir, 'certificate.pem')
    if (tls) await writeFile(pem, (await textOf(tls.certPath)) + (await textOf(tls.keyPath)))
    return replaced(text, [
      // The container that tests run in may not open so many files.
      [/maxconn \d+/, 'maxconn 4096'],
      tls
        ? [/bind :80 # for HTTPS: bind :443 ssl crt \S+/, `bind 127.0.0.1:${port} ssl crt ${pem}`]
        : [/bind :80 /, `bind 127.0.0.1:${port} `],
      // Here each gateway has an admin port of its own.
      [/check port 9090 /, ''],
      [
        /server gateway1 .*\n *server gateway2 .*/,
        upstreams
          .map(
            (one, i) => `server gateway${i + 1} 127.0.0.1:${one.port} check port ${one.adminPort}`,
          )
          .join('\n'),
      ],
    ])
  },
  caddy(text, { port, upstreams, tls }) {
    if (!tls) throw new Error('Caddy is tried with TLS alone')
    const [one] = upstreams
    return replaced(text, [
      [/^/, '{\n\tadmin off\n\tauto_https disable_redirects\n}\n'],
      [
        /gateway\.example \{/,
        `https://localhost:${port} {\n\tbind 127.0.0.1\n\ttls ${tls.certPath} ${tls.keyPath}`,
      ],
      [/gateway1:8080 gateway2:8080/, upstreams.map((each) => `127.0.0.1:${each.port}`).join(' ')],
      [/health_port 9090/, `health_port ${one?.adminPort}`],
    ])
  },
}

const textOf = (path: string) => readFile(path, 'utf8')

type Replacement = readonly [RegExp, string]

/** Throws when the file no longer has what is to be replaced. */
function replaced(text: string, replacements: readonly Replacement[]): string {
  return replacements.reduce((before, [from, to]) => {
    const after = before.replace(from, to)
    if (after === before) throw new Error(`Nothing to replace: ${from}`)
    return after
  }, text)
}
