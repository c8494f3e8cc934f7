// src/cli/doctor/redis.ts on real servers: well configured ones, badly configured ones, and none.

import t from 'tap'
import type { Test } from 'tap'
import { claimPepper } from '../../../src/accounts/pepper.ts'
import {
  examineRedis,
  judgeClock,
  judgeCluster,
  judgeEviction,
  judgeNodes,
  judgePersistence,
  judgeVersion,
} from '../../../src/cli/doctor/redis.ts'
import { startEmbeddedRedis } from '../../../src/redis/embedded/embedded.ts'
import { parseInfo } from '../../../src/redis/server-kind.ts'
import { startExamination } from '../../fixtures/examination.ts'
import { connectLink } from '../../fixtures/ledger.ts'
import { startCluster } from '../../fixtures/redis-cluster.ts'
import { redisServerPath, startRedis } from '../../fixtures/redis-server.ts'
import { tempDir } from '../../fixtures/temp-dir.ts'
import { until } from '../../fixtures/until.ts'

process.env.REDIS_SERVER = await redisServerPath()

interface Access {
  readonly username?: string
  readonly password?: string
}

interface Looking {
  readonly limitMs?: number
  readonly pepper?: string
}

async function examined(socket: string, more: Access & Looking = {}) {
  const { limitMs = 5000, pepper = '', ...access } = more
  const { examination, lines } = startExamination({ limitMs })
  const address = { kind: 'single', host: '', port: 0, path: socket, db: 0 } as const
  await examineRedis({ redis: { ...address, ...access }, data: '/nowhere', pepper }, examination)
  return { lines, findings: examination.findings }
}

async function serverWith(t: Test, ...args: readonly string[]) {
  return (await startRedis(t, { args })).socket
}

const smallNodes = ['--stream-node-max-bytes', '1024']

t.test('a well configured Redis is ok in every check', async (t) => {
  const { lines } = await examined(await serverWith(t, '--appendonly', 'yes', ...smallNodes))
  t.strictSame(
    lines.map((line) => line.split(':')[0]),
    ['', ...'version eviction persistence clock memory rights writes pepper'.split(' ')].map(
      (name) => `ok redis ${name}`.trim(),
    ),
  )
  t.match(lines[3], 'append-only file, appendfsync everysec')
  t.match(lines[4], /: \d+ ms (behind|ahead of) this machine's$/)
})

t.test('a pepper is the one that Redis knows, or none that it knows, or a wrong one', async (t) => {
  const redis = await serverWith(t)
  const { client } = await connectLink(t, redis)
  const look = async (pepper: string) => (await examined(redis, { pepper })).lines.at(-1)
  t.equal(await look('cayenne'), 'ok redis pepper: Redis does not know yet which one is right')
  await claimPepper(client, 'cayenne')
  t.equal(await look('cayenne'), 'ok redis pepper: keys are made under this one')
  t.match(
    await look('chili'),
    /^fail redis pepper: plugins\.auth\.pepper is not the one .*another-pepper$/,
  )
})

t.test('no append-only file, so that a crash loses balances, is a warning', async (t) => {
  const { lines } = await examined(await serverWith(t))
  t.match(lines[3], /^warn redis persistence: no append-only file/)
})

t.test('a Redis that evicts is a failure; one that could, a warning', async (t) => {
  const policy = ['--maxmemory-policy', 'allkeys-lru']
  const full = await examined(await serverWith(t, ...policy, '--maxmemory', '100mb'))
  t.match(full.lines[2], /^fail redis eviction: allkeys-lru.*set maxmemory-policy noeviction/)
  const roomy = await examined(await serverWith(t, ...policy))
  t.match(roomy.lines[2], /^warn redis eviction: allkeys-lru/)
})

t.test(
  'a Cluster: every node is examined, and the one that is badly configured is named',
  async (t) => {
    const cluster = await startCluster(t, { args: ['--appendfsync', 'everysec', ...smallNodes] })
    const examine = async () => {
      const { examination, lines } = startExamination({ limitMs: 5000 })
      await examineRedis({ redis: cluster.config, data: '/nowhere' }, examination)
      return lines
    }
    const good = await examine()
    t.equal(good.length, 10)
    for (const line of good) t.match(line, /^ok redis/)
    t.equal(good[2], 'ok redis cluster: 3 primaries, 3 replicas')
    const [, , , replica] = cluster.nodes
    await replica?.client.config('SET', 'maxmemory-policy', 'allkeys-lru', 'maxmemory', '100mb')
    await replica?.client.config('SET', 'appendonly', 'no')
    const bad = await examine()
    t.match(bad[3], `fail redis eviction: 127.0.0.1:${replica?.port}: allkeys-lru`)
    t.match(bad[4], `warn redis persistence: 127.0.0.1:${replica?.port}: no append-only file`)
    await replica?.kill()
    await until(async () => /without a replica/.test((await examine())[2] ?? ''))
  },
)

t.test('a Redis that is down, hangs, or has another password is one line', async (t) => {
  const down = await startRedis(t)
  await down.stop()
  const refused = await examined(down.socket, { limitMs: 1000 })
  t.match(refused.lines, [/^fail redis: .*ENOENT/])
  t.equal(refused.lines.length, 1)
  t.equal(refused.findings[0]?.unreachable, true)

  const hung = await startRedis(t)
  process.kill(hung.pid, 'SIGSTOP')
  t.teardown(() => process.kill(hung.pid, 'SIGCONT'))
  const silent = await examined(hung.socket, { limitMs: 1000 })
  t.match(silent.lines, [/^fail redis: .*no answer within/])
  process.kill(hung.pid, 'SIGCONT')

  const locked = await serverWith(t, '--requirepass', 'right')
  t.match((await examined(locked, { password: 'wrong' })).lines, [/^fail redis: .*WRONGPASS/])
  t.match((await examined(locked, { password: 'right' })).lines[0], /^ok redis: /)
})

t.test(
  'an ACL user that may not do all that the gateway does is a failure that says what',
  async (t) => {
    const login = { username: 'tollgate', password: 'PASSWORD' }
    const rights = async (...rules: readonly string[]) => {
      const socket = await serverWith(t, '--user', 'tollgate', 'on', '>PASSWORD', ...rules)
      const { lines } = await examined(socket, login)
      return lines.find((line) => line.includes('rights')) ?? lines.join('\n')
    }
    const all = '~* -@all +@connection +info +time +@read +@write +@scripting'.split(' ')
    const without = (right: string) => all.filter((one) => one !== right)
    t.equal(await rights(...all), 'ok redis rights: it may read, write and run scripts')
    t.match(
      await rights(...without('+@scripting')),
      /^fail redis rights: .*NOPERM.*'script\|load'.*: give the user \+@scripting/,
    )
    t.match(await rights(...all, '-evalsha'), /^fail redis rights: .*'evalsha'/)
    t.match(await rights(...without('+@write')), /^fail redis rights: .*give the user \+@write/)
    t.match(await rights(...without('+@read')), /^fail redis rights: .*give the user \+@read/)
    t.match(await rights('~no:*', ...without('~*')), /^fail redis rights: .*give the user ~\*/)
  },
)

t.test('CONFIG may be forbidden, as on hosted servers', async (t) => {
  const forbidden = ['--rename-command', 'CONFIG', '']
  const socket = await serverWith(t, '--appendonly', 'yes', ...forbidden)
  const { lines } = await examined(socket)
  t.match(lines[3], /^ok redis persistence: append-only file$/)
})

t.test('an embedded Redis is checked only while its gateway runs', async (t) => {
  const data = await tempDir(t)
  const idle = startExamination()
  await examineRedis({ redis: { kind: 'embedded' }, data }, idle.examination)
  t.match(idle.lines, [/^ok redis: embedded/])
  const log = { info: () => undefined, warn: () => undefined }
  const server = await startEmbeddedRedis({ dataDir: data, log })
  t.teardown(() => server.stop())
  const { examination, lines } = startExamination()
  await examineRedis({ redis: { kind: 'embedded' }, data }, examination)
  t.equal(lines.length, 9)
  for (const line of lines) t.match(line, /^ok /)
})

t.test('old versions, clusters and clocks are judged by what servers report', async (t) => {
  const info = (text: string) => parseInfo(text.replaceAll(' ', '\r\n'))
  t.match(judgeVersion(info('redis_version:6.2.14')), { verdict: 'fail', detail: /7 or later/ })
  t.match(judgeVersion(info('redis_version:7.2.4 valkey_version:8.0.1')), {
    verdict: 'ok',
    detail: 'Valkey 8.0.1, as Redis 7.2.4',
  })
  const primary = info('role:master connected_slaves:1')
  t.match(judgeCluster([primary, info('role:slave')]), {
    verdict: 'ok',
    detail: '1 primaries, 1 replicas',
  })
  t.match(judgeCluster([primary, info('role:master')]), { verdict: 'warn', detail: /1 without/ })
  t.match(judgeEviction(info('')), { verdict: 'fail' })
  const broken = info('aof_enabled:1 aof_last_write_status:err')
  t.match(judgePersistence(broken, 'everysec'), { verdict: 'fail' })
  t.match(judgePersistence(info('aof_enabled:1'), 'no'), { verdict: 'warn' })
  t.match(judgeNodes('4096'), { verdict: 'warn', detail: /^stream-node-max-bytes 4096: / })
  t.match(judgeNodes('0'), { verdict: 'warn' }, 'without a limit')
  t.match(judgeNodes(undefined), { verdict: 'ok' }, 'a hosted server does not tell')
  t.match(judgeClock(-1500), { verdict: 'warn', detail: /^1500 ms behind/ })
  t.match(judgeClock(999), { verdict: 'ok', detail: /^999 ms ahead/ })
})
