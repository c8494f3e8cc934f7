// config/systemd/ is what systemd takes, it locks the gateway in, and its command and its reload work.

import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { ensureProgram } from '../../scripts/apt.ts'
import { loadConfig } from '../../src/config/load.ts'
import { plugins } from '../../src/gateway.ts'
import { runProcess, startProcess } from '../fixtures/process.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { root } from '../fixtures/source.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

const folder = join(root, 'config/systemd')
const unit = await readFile(join(folder, 'tollgate.service'), 'utf8')
// As if this clone were in /opt/tollgate.
const here = unit.replaceAll('/opt/tollgate', root)

await ensureProgram('systemd-analyze', 'systemd')

async function analyze(t: Test, words: readonly string[], text: string) {
  const file = join(await tempDir(t), 'tollgate.service')
  await writeFile(file, text)
  const { code, out, err } = await runProcess(t, ['systemd-analyze', ...words, file])
  return { code, said: out + err }
}

/** The last value of a key; a line that ends in \ goes on. */
function valueOf(key: string): string {
  const lines = here.replaceAll('\\\n', ' ').split('\n')
  return lines.findLast((line) => line.startsWith(`${key}=`))?.slice(key.length + 1) ?? ''
}

t.test('systemd takes every line', async (t) => {
  t.same(await analyze(t, ['verify', '--recursive-errors=no'], here), { code: 0, said: '' })
  const mistyped = here.replace('KillMode=', 'KilMode=')
  t.match(await analyze(t, ['verify', '--recursive-errors=no'], mistyped), { said: /KilMode/ })
})

t.test('the service is locked in: an exposure of at most 2 of 10', async (t) => {
  const words = ['security', '--no-pager', '--offline=yes', '--threshold=20']
  t.match(await analyze(t, words, here), { code: 0 })
  t.match(await analyze(t, words, here.replaceAll(/^(Protect|Restrict).*/gm, '')), { code: 1 })
})

t.test('a stop has more time than `drain` takes', async (t) => {
  const env = { TOLLGATE_DATA: '/var/lib/tollgate', REDIS_URL: 'redis://redis:6379' }
  const loaded = await loadConfig(join(folder, 'gateway.yaml'), plugins, { env })
  if ('problems' in loaded) throw new Error(JSON.stringify(loaded.problems))
  t.ok(1000 * Number(valueOf('TimeoutStopSec')) >= loaded.config.drainMs + 30_000)
})

t.test('the command starts, reloads by SIGHUP and stops with 0', async (t) => {
  const redis = await startRedis(t)
  const data = join(await tempDir(t), 'data')
  await mkdir(data)
  const env = {
    TOLLGATE_DATA: data,
    REDIS_URL: `unix://${redis.socket}`,
    PORT: '0',
    ADMIN_LISTEN: '127.0.0.1:0',
  }
  const config = join(folder, 'gateway.yaml')
  const words = valueOf('ExecStart').split(/\s+/)
  const command = words.map((word) => (word === '/etc/tollgate/gateway.yaml' ? config : word))
  // systemd gives a service no more of an environment than this.
  const { said, child, stop } = startProcess(t, command, { env, cwd: data })
  const [, adminUrl = ''] = await said(/admin on (\S+)/)
  t.equal((await fetch(`${adminUrl}/readyz`)).status, 200)
  t.match(valueOf('ExecReload'), /-HUP \$MAINPID$/)
  child.kill('SIGHUP')
  await said(/the configuration has not changed/)
  t.equal(await stop(), 0)
})
