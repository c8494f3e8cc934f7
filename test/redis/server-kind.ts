// src/redis/server-kind.ts on real servers: whatever gateway.yaml says of the wrong server is refused at once, by the
// gateway's start and by `tollgate doctor`, in one line that says what to write.

import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { examineRedis } from '../../src/cli/doctor/redis.ts'
import type { RedisConfig } from '../../src/config/config.ts'
import { connect } from '../../src/redis/connect.ts'
import { parseInfo, whyNoSingle } from '../../src/redis/server-kind.ts'
import { startExamination } from '../fixtures/examination.ts'
import { freePort } from '../fixtures/free-port.ts'
import { startNode } from '../fixtures/redis-node.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

const host = '127.0.0.1'
const folder = await tempDir(t)

async function startServer(name: string, ...args: readonly string[]) {
  const dir = join(folder, name)
  await mkdir(dir)
  return startNode(t, { dir, args })
}

async function startSentinel(primary: number) {
  const dir = join(folder, 'sentinel')
  await mkdir(dir)
  await writeFile(join(dir, 's.conf'), `sentinel monitor main ${host} ${primary} 1\n`)
  return startNode(t, { dir, port: await freePort(), args: ['s.conf', '--sentinel'] })
}

const single = ({ port }: { port: number }) => ({ kind: 'single', host, port, db: 0 }) as const
const cluster = ({ port }: { port: number }) =>
  ({ kind: 'cluster', nodes: [{ host, port }] }) as const
const sentinels = ({ port }: { port: number }, name = 'main') =>
  ({ kind: 'sentinel', sentinels: [{ host, port }], name, db: 0 }) as const

/** Long enough that only a refusal at once ends before the test does. */
const waitMs = 600_000

async function whyNot(config: RedisConfig): Promise<string> {
  const opening = connect(config, { waitMs })
  return opening.then((link) => link.close()).then(() => 'it is used', String)
}

async function refused(t: Test, config: RedisConfig, why: string | RegExp): Promise<void> {
  const error = await whyNot(config)
  t.match(error, why)
  t.notMatch(error, /\n/, 'one line')
  const { examination, lines } = startExamination({ limitMs: 60_000 })
  await examineRedis({ redis: config, data: '/nowhere' }, examination)
  t.equal(lines.length, 1)
  t.match(lines[0], /^fail redis: /)
  t.match(lines[0], why)
}

const plain = await startServer('plain')
const member = await startServer('member', '--cluster-enabled', 'yes')
const replica = await startServer('replica', '--replicaof', `${host} ${plain.port}`)
const sentinel = await startSentinel(plain.port)

t.test('a URL of a node of a Cluster is refused', (t) =>
  refused(
    t,
    single(member),
    `Redis at ${host}:${member.port} can't be used: it is a node of a Redis Cluster; write redis: { cluster: ['${host}:${member.port}'] }`,
  ),
)

t.test('a URL of a Sentinel is refused, and its primaries are named', (t) =>
  refused(
    t,
    single(sentinel),
    `it is a Sentinel; write redis: { sentinels: ['${host}:${sentinel.port}'], name: main }`,
  ),
)

t.test('a URL of a replica is refused, and its primary is named', (t) =>
  refused(
    t,
    single(replica),
    `it is a replica and takes no writes; write the URL of its primary, redis://${host}:${plain.port}`,
  ),
)

t.test('of a replica that does not reach its primary, the refusal says so', (t) => {
  const replicaOf = (link: string) =>
    parseInfo(
      `role:slave\r\nmaster_host:10.0.0.9\r\nmaster_port:6379\r\nmaster_link_status:${link}\r\n`,
    )
  const address = { kind: 'single', host, port: 1, db: 0 } as const
  const primary = 'write the URL of its primary, redis://10.0.0.9:6379'
  t.equal(whyNoSingle(address, replicaOf('up')), `it is a replica and takes no writes; ${primary}`)
  t.equal(
    whyNoSingle(address, replicaOf('down')),
    `it is a replica and takes no writes; ${primary}, if that has your accounts: this one does not reach it`,
  )
  t.end()
})

t.test('nodes of a Cluster that are none are refused', async (t) => {
  const { port } = plain
  await refused(t, cluster(plain), `${host}:${port} is no node of a Cluster; write redis: redis://`)
  await refused(t, cluster(replica), 'is no node of a Cluster')
  await refused(
    t,
    cluster(sentinel),
    `${host}:${sentinel.port} is a Sentinel; write redis: { sentinels: ['${host}:${sentinel.port}']`,
  )
})

t.test('Sentinels that are none, or know no such primary, are refused', async (t) => {
  await refused(t, sentinels(plain), 'one of them is no Sentinel; write redis: redis://HOST:PORT')
  await refused(t, sentinels(member), 'one of them is no Sentinel')
  await refused(t, sentinels(sentinel, 'other'), 'they watch no primary of this name; write theirs')
})

t.test('a server that suits is used', async (t) => {
  for (const config of [single(plain), sentinels(sentinel)]) {
    const link = await connect(config, { waitMs })
    t.equal(await link.client.ping(), 'PONG')
    await link.close()
  }
})

t.test('over a socket or with TLS, the advice has no address that would be wrong', (t) => {
  const info = (fields: object) => new Map<string, string>(Object.entries(fields))
  const at = { kind: 'single', host: '', port: 0, path: '/run/redis', db: 0 } as const
  t.match(whyNoSingle(at, info({ cluster_enabled: '1' })), /\['HOST:PORT'\]/)
  t.match(whyNoSingle(at, info({ redis_mode: 'sentinel' })), /name: NAME/)
  const replica = info({ role: 'slave', master_host: '::1', master_port: '7' })
  t.match(whyNoSingle({ ...at, tls: {} }, replica), /rediss:\/\/\[::1\]:7$/)
  t.equal(whyNoSingle(at, info({ role: 'master', cluster_enabled: '0' })), undefined)
  t.end()
})
