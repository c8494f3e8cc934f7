// src/redis/embedded/embedded.ts with real servers and real kills: the data stays, but no server does.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, readdir, readFile, stat, truncate, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { startEmbeddedRedis } from '../../../src/redis/embedded/embedded.ts'
import type { EmbeddedRedis } from '../../../src/redis/embedded/embedded.ts'
import { connect } from '../../../src/redis/connect.ts'
import type { RedisLink } from '../../../src/redis/connect.ts'
import { redisServerPath } from '../../fixtures/redis-server.ts'
import { tempDir } from '../../fixtures/temp-dir.ts'
import { until } from '../../fixtures/until.ts'

process.env.REDIS_SERVER = await redisServerPath()

interface Started {
  readonly redis: EmbeddedRedis
  readonly link: RedisLink
  readonly warnings: readonly string[]
  /** Resolves at the first warning. */
  readonly warned: Promise<void>
}

async function start(t: Test, dataDir: string): Promise<Started> {
  const warnings: string[] = []
  const { promise: warned, resolve } = Promise.withResolvers<void>()
  const warn = (_: object, message: string) => {
    warnings.push(message)
    resolve()
  }
  const redis = await startEmbeddedRedis({ dataDir, log: { info: () => undefined, warn } })
  t.teardown(() => redis.stop())
  const link = await connect({ kind: 'embedded' }, { embeddedSocket: redis.socket })
  t.teardown(() => link.close())
  return { redis, link, warnings, warned }
}

/** A zombie counts as ended: its new parent just has not collected it yet. */
function isAlive(pid: number): boolean {
  try {
    return !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ')
  } catch {
    return false
  }
}

const mode = async (path: string) => ((await stat(path)).mode & 0o777).toString(8)

t.test('private, recorded, durable, without a TCP port; only the data is left', async (t) => {
  const dataDir = await tempDir(t)
  const { redis, link } = await start(t, dataDir)
  const setting = async (name: string) => (await link.client.config('GET', name)).at(1)
  t.equal(await setting('appendonly'), 'yes')
  t.equal(await setting('appendfsync'), 'everysec')
  t.equal(await setting('maxmemory-policy'), 'noeviction')
  t.equal(await setting('stream-node-max-bytes'), '1024')
  t.equal(await setting('port'), '0')
  const { socket } = JSON.parse(await readFile(join(dataDir, 'redis.json'), 'utf8'))
  t.equal(socket, redis.socket)
  t.equal(await mode(dirname(socket)), '700')
  t.equal(await mode(socket), '700')
  t.equal(await mode(join(dataDir, 'redis')), '700')
  t.equal(await mode(join(dataDir, 'redis.json')), '600')
  await link.client.set('a', '1')
  await link.close()
  await redis.stop()
  t.notOk(isAlive(redis.pid))
  t.notOk(existsSync(dirname(socket)))
  t.strictSame(await readdir(dataDir), ['redis'])
  const again = await start(t, dataDir)
  t.equal(await again.link.client.get('a'), '1')
})

t.test('killed with -9 it is back on the same socket with its data, again and again', async (t) => {
  const { redis, link, warnings } = await start(t, await tempDir(t))
  for (const round of [1, 2]) {
    t.equal(await link.client.incr('n'), round)
    const { pid } = redis
    const ready = new Promise<void>((done) => link.onReady(done))
    process.kill(pid, 'SIGKILL')
    await ready
    t.not(redis.pid, pid)
  }
  t.equal(await link.client.get('n'), '2')
  t.equal(warnings.length, 2)
})

t.test('stopped while it waits for a restart, it is not started again', async (t) => {
  const { redis, warned } = await start(t, await tempDir(t))
  process.kill(redis.pid, 'SIGKILL')
  await warned
  await redis.stop()
  t.notOk(isAlive(redis.pid))
  t.notOk(existsSync(redis.socket))
})

t.test('a gateway killed with -9 ends it too, and the file is whole', async (t) => {
  const dataDir = await tempDir(t)
  const script = join(import.meta.dirname, '../../fixtures/embedded-gateway.ts')
  const stdio = ['ignore', 'pipe', 'inherit'] as const
  const gateway = spawn(process.execPath, [script, dataDir], { stdio: [...stdio] })
  t.teardown(() => gateway.kill('SIGKILL'))
  if (!gateway.stdout) throw new Error('no output')
  const [line] = await once(gateway.stdout, 'data')
  const { socket, pid } = JSON.parse(String(line)) as { socket: string; pid: number }
  const session = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(' ')[5]
  t.equal(Number(session), pid, "Ctrl-C in the gateway's terminal does not reach it")
  const link = await connect({ kind: 'embedded' }, { embeddedSocket: socket })
  for (let n = 1; n <= 500; n++) void link.client.rpush('list', n).catch(() => undefined)
  t.equal(await link.client.llen('list'), 500)
  gateway.kill('SIGKILL')
  await until(() => !isAlive(pid))
  await link.close()

  const again = await start(t, dataDir)
  t.equal(await again.link.client.llen('list'), 500)
  const info = await again.link.client.info('persistence')
  t.match(info, /aof_enabled:1/)
  t.notOk(existsSync(dirname(socket)), 'its folder is removed by the next')
})

t.test('a file cut off in the middle of a command is loaded up to there', async (t) => {
  const dataDir = await tempDir(t)
  const first = await start(t, dataDir)
  await first.link.client.set('a', '1')
  await first.link.client.set('b', 'x'.repeat(100))
  await first.link.close()
  await first.redis.stop()
  const folder = join(dataDir, 'redis/appendonlydir')
  const name = (await readdir(folder)).find((name) => name.endsWith('.incr.aof')) ?? ''
  await truncate(join(folder, name), (await stat(join(folder, name))).size - 20)
  const { link } = await start(t, dataDir)
  t.equal(await link.client.get('a'), '1')
  t.equal(await link.client.get('b'), null)
})

t.test('a corrupt file stops the start with a message, and no server is left', async (t) => {
  const dataDir = await tempDir(t)
  const first = await start(t, dataDir)
  await first.link.client.set('a', '1')
  await first.link.close()
  await first.redis.stop()
  const folder = join(dataDir, 'redis/appendonlydir')
  for (const name of await readdir(folder)) await writeFile(join(folder, name), 'rubbish\n')
  await t.rejects(start(t, dataDir), /ended at once. It said:[^]*(AOF|append only|manifest)/)
  t.notOk(existsSync(join(dataDir, 'redis.json')))
})

t.test('a data folder with a long path and blanks in it has a short socket path', async (t) => {
  const deep = join(await tempDir(t), 'a long name '.repeat(10), 'and "another" one '.repeat(10))
  await mkdir(deep, { recursive: true })
  const { redis, link } = await start(t, deep)
  t.ok(Buffer.byteLength(redis.socket) <= 103)
  await link.client.set('a', '1')
  t.ok(existsSync(join(deep, 'redis/appendonlydir')))
})

t.test('the next start waits for a server that still writes', async (t) => {
  const dataDir = await tempDir(t)
  const { redis } = await start(t, dataDir)
  let isThere = false
  const second = start(t, dataDir).then((started) => {
    isThere = true
    return started
  })
  await start(t, await tempDir(t)) // This takes as long as the second start would without waiting.
  t.equal(isThere, false)
  await redis.stop()
  const { link } = await second
  t.equal(await link.client.ping(), 'PONG')
})
