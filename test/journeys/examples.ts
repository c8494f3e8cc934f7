// Every file that operators copy works as it is: the gateway starts, serves, and stops cleanly, with the Redis that it
// names.

import { readFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import type { Test } from 'tap'
import { certificate } from '../fixtures/certificate.ts'
import { freePort } from '../fixtures/free-port.ts'
import { startProcess } from '../fixtures/process.ts'
import { startCluster } from '../fixtures/redis-cluster.ts'
import { startSentinels } from '../fixtures/redis-sentinel.ts'
import { redisServerPath, startRedis } from '../fixtures/redis-server.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const examples = (await readdir(join(root, 'config/examples'))).filter((name) =>
  name.endsWith('.yaml'),
)

async function start(t: Test, file: string) {
  const dataDir = await tempDir(t)
  const env = {
    PATH: process.env.PATH ?? '',
    REDIS_SERVER: await redisServerPath(),
    PORT: '0',
    ADMIN_LISTEN: '127.0.0.1:0',
    TOLLGATE_DATA: dataDir,
    ADMIN_PORT: '0',
    TOLLGATE_FILES: join(dataDir, 'files'),
    OPENAI_API_KEY: 'an-example-key',
    REDIS_PASSWORD: 's3cret',
    SENTINEL_PASSWORD: '',
    ...(await redisFor(t, file)),
    TLS_CERT: certificate.certPath,
    TLS_KEY: certificate.keyPath,
    TLS_CA: certificate.certPath,
  }
  const args = [
    join(root, 'src/tollgate.cjs'),
    'start',
    '--config',
    join(root, 'config/examples', file),
  ]
  const started = startProcess(t, [process.execPath, ...args], { env })
  const [, adminUrl = ''] = await started.said(/admin on (\S+)/)
  return { ...started, adminUrl, dataDir }
}

const guarded = ['--user', 'gateway', 'on', '>s3cret', '~*', '+@all']

/** Where the Redis of this example listens. */
async function redisFor(t: Test, file: string): Promise<Readonly<Record<string, string>>> {
  if (file === 'full.yaml') return { REDIS_URL: await startGuardedRedis(t) }
  if (file === 'redis-cluster.yaml') {
    const { nodes } = await startCluster(t, { args: guarded })
    return placesOf(nodes)
  }
  if (file === 'redis-sentinel.yaml') {
    const { sentinels } = await startSentinels(t, { args: guarded })
    return placesOf(sentinels)
  }
  return {}
}

function placesOf(nodes: readonly { readonly port: number }[]) {
  return Object.fromEntries(nodes.map(({ port }, i) => [`REDIS_${i + 1}`, `127.0.0.1:${port}`]))
}

/** A Redis with TLS on both sides and a user of its own, as in full.yaml. */
async function startGuardedRedis(t: Test): Promise<string> {
  const { certPath, keyPath } = certificate
  const port = String(await freePort())
  const own = ['--tls-cert-file', certPath, '--tls-key-file', keyPath]
  const args = ['--tls-port', port, ...own, '--tls-ca-cert-file', certPath, ...guarded]
  await startRedis(t, { args })
  return `rediss://localhost:${port}/0`
}

for (const file of examples) {
  t.test(`${file} starts, is ready, and stops with 0`, async (t) => {
    const started = await start(t, file)
    const ready = await fetch(`${started.adminUrl}/readyz`)
    t.equal(ready.status, 200)
    t.match(await readFile(join(started.dataDir, 'admin-token'), 'utf8'), /\S{20}/)
    t.equal(await started.stop(), 0)
  })
}
