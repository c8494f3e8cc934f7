// The load balancers of config/proxies/, each with the addresses of this machine in place of those in the file.

import { execFile } from 'node:child_process'
import { chmod, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { freePort } from '../../test/fixtures/free-port.ts'
import { startProcess } from '../../test/fixtures/process.ts'
import { tempDir } from '../../test/fixtures/temp-dir.ts'
import { until } from '../../test/fixtures/until.ts'
import { installPackage } from '../apt.ts'

export const proxyNames = ['nginx', 'haproxy'] as const
export type ProxyName = (typeof proxyNames)[number]

export interface Upstream {
  readonly port: number
  readonly adminPort: number
}

const folder = resolve(import.meta.dirname, '../../config/proxies')

/** Resolves with its URL. Installs the package if it is not there. */
export async function startProxy(
  t: Pick<Test, 'teardown'>,
  name: ProxyName,
  upstreams: readonly Upstream[],
): Promise<string> {
  await promisify(execFile)(name, ['-v']).catch(() => installPackage(name))
  const port = await freePort()
  const dir = await tempDir(t)
  // nginx's worker runs as another user.
  await chmod(dir, 0o755)
  const file = join(dir, `${name}.conf`)
  const written = await readFile(join(folder, files[name]), 'utf8')
  await writeFile(file, local[name](written, { port, upstreams, dir }))
  const command =
    name === 'nginx'
      ? ['nginx', '-p', dir, '-c', file, '-g', 'daemon off;']
      : ['haproxy', '-f', file]
  const { log, stop } = startProcess(t, command)
  // Killed, nginx would leave its workers behind.
  t.teardown(stop)
  const url = `http://127.0.0.1:${port}`
  const isUp = () =>
    fetch(`${url}/v1/models`).then(
      ({ status }) => status === 401,
      () => false,
    )
  await until(isUp, 30_000).catch((error: unknown) => {
    throw new Error(`${name} does not start: ${log.join('\n')}`, { cause: error })
  })
  return url
}

const files = { nginx: 'nginx.conf', haproxy: 'haproxy.cfg' } as const

interface Here {
  readonly port: number
  readonly upstreams: readonly Upstream[]
  readonly dir: string
}

const local: Readonly<Record<ProxyName, (text: string, here: Here) => string>> = {
  nginx: (text, { port, upstreams, dir }) =>
    replaced(text, [
      [/\/run\/nginx\.pid/, `${dir}/nginx.pid`],
      [/listen 80;/, `listen 127.0.0.1:${port};`],
      [
        /server gateway1:8080(.*)\n *server gateway2:8080.*/,
        upstreams.map((one) => `server 127.0.0.1:${one.port}$1`).join('\n'),
      ],
    ]),
  haproxy: (text, { port, upstreams }) =>
    replaced(text, [
      // The container that tests run in may not open so many files.
      [/maxconn \d+/, 'maxconn 4096'],
      [/bind :80 /, `bind 127.0.0.1:${port} `],
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
    ]),
}

type Replacement = readonly [RegExp, string]

/** Throws when the file no longer has what is to be replaced. */
function replaced(text: string, replacements: readonly Replacement[]): string {
  return replacements.reduce((before, [from, to]) => {
    const after = before.replace(from, to)
    if (after === before) throw new Error(`Nothing to replace: ${from}`)
    return after
  }, text)
}
