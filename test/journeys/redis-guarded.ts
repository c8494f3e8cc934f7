// A Redis that trusts nobody: Cluster and Sentinels that take only TLS with a certificate of the client, a password, and
// an ACL user that may do no more than docs/security.md says. Every part works, also after the primary has died.

import { readFile } from 'node:fs/promises'
import t from 'tap'
import type { Test } from 'tap'
import { examineRedis } from '../../src/cli/doctor/redis.ts'
import { keys } from '../../src/redis/keys.ts'
import { connect } from '../../src/redis/connect.ts'
import { startBackend } from '../fixtures/backend.ts'
import type { Backend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { certificate } from '../fixtures/certificate.ts'
import { useSessionsAndFiles } from '../fixtures/every-part.ts'
import { startExamination } from '../fixtures/examination.ts'
import { accountsFor, breakUnderLoad } from '../fixtures/fail-over.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { outputOnly, refOf } from '../fixtures/money.ts'
import { startCluster } from '../fixtures/redis-cluster.ts'
import { clientTls } from '../fixtures/redis-node.ts'
import type { RedisNode } from '../fixtures/redis-node.ts'
import { startSentinels } from '../fixtures/redis-sentinel.ts'

const docs = await readFile(new URL('../../docs/security.md', import.meta.url), 'utf8')
const lineOf = (user: string) => new RegExp(`^user ${user} (.*)$`, 'm').exec(docs)?.[1] ?? ''
const further = /`(\+cluster\|\S+(?: \+\S+)*)`/.exec(docs)?.[1]?.split(' ') ?? []
const user = ['--user', 'tollgate', ...lineOf('tollgate').split(' ')]
const guard = { isSecure: true, password: 'of-the-servers' }
const { certPath, keyPath } = certificate
const login = `username: tollgate, password: PASSWORD, tls: { ca: ${certPath}, cert: ${certPath}, key: ${keyPath} } }`
const credentials = { username: 'tollgate', password: 'PASSWORD', tls: clientTls }

interface Group {
  readonly redisUrl: string
  readonly backend: Backend
  /** Whose death is waited for. */
  dying(ref: string): Promise<RedisNode>
}

/** Every part, and a primary that dies under load. */
async function survives(t: Test, { redisUrl, backend, dying }: Group): Promise<void> {
  const setup = { redisUrl, yaml: outputOnly(backend.url) }
  const gateways = [await startGateway(t, setup), await startGateway(t, setup)] as const
  const [gateway] = gateways
  await useSessionsAndFiles(t, gateway, (await gateway.account(10_000)).key)
  const accounts = await accountsFor(gateway, 6)
  const [account = { id: '', key: '' }] = accounts
  const node = await dying(refOf(account))
  const { refusedMs, strange } = await breakUnderLoad(t, {
    gateways,
    backend,
    accounts,
    breakIt: () => node.kill(),
  })
  t.same(strange, [])
  t.ok(refusedMs.size > 0, 'somebody has noticed')
  await node.restart()
}

t.test('a Cluster', async (t) => {
  const backend = await startBackend(t, chat({ chunks: 5 }))
  const args = ['--cluster-require-full-coverage', 'no', ...user, ...further]
  const cluster = await startCluster(t, { args, ...guard })
  const config = { ...cluster.config, ...credentials }
  await survives(t, {
    redisUrl: cluster.yaml.replace(/ }$/, `, ${login}`),
    backend,
    dying: (ref) => cluster.primaryOf(keys.account(ref)),
  })
  await cluster.healthy()
  const { examination, lines } = startExamination({ limitMs: 5000 })
  await examineRedis({ redis: config, data: '/nowhere' }, examination)
  t.match(lines[0], /^ok redis: /)
  for (const [what, wrong, why] of [
    ['another password', { ...config, password: 'wr0ng' }, /WRONGPASS/],
    ['no user', { ...config, username: undefined, password: undefined }, /NOAUTH/],
    ['no certificate', { ...config, tls: { ca: clientTls.ca } }, /can't be used/],
    [
      'another authority',
      { ...config, tls: { ...clientTls, ca: certificate.renewed.cert } },
      /self.signed/,
    ],
    ['no TLS', { ...config, tls: undefined }, /can't be used/],
  ] as const) {
    await t.rejects(connect(wrong, { waitMs: 1000 }), why, what)
  }
})

t.test('Sentinels, with a user of their own', async (t) => {
  const backend = await startBackend(t, chat({ chunks: 5 }))
  const ofSentinels = [`user watcher ${lineOf('watcher')}`]
  const group = await startSentinels(t, { args: user, ofSentinels, ...guard })
  const own = 'sentinel_username: watcher, sentinel_password: PASSWORD, '
  await survives(t, {
    redisUrl: group.yaml.replace(/ }$/, `, ${own}${login}`),
    backend,
    dying: group.primary,
  })
  await group.healthy()
  const config = {
    ...group.config,
    ...credentials,
    sentinelUsername: 'watcher',
    sentinelPassword: 'PASSWORD',
  }
  const { examination, lines } = startExamination({ limitMs: 5000 })
  await examineRedis({ redis: config, data: '/nowhere' }, examination)
  t.match(lines[0], /^ok redis: /)
  for (const [what, wrong, why] of [
    ["another password of the Sentinels'", { ...config, sentinelPassword: 'x' }, /WRONGPASS/],
    [
      'no user of the Sentinels',
      { ...config, sentinelUsername: undefined, sentinelPassword: undefined },
      /NOAUTH/,
    ],
    ['another password', { ...config, password: 'wr0ng' }, /WRONGPASS/],
    ['no certificate', { ...config, tls: { ca: clientTls.ca } }, /can't be used/],
  ] as const) {
    await t.rejects(connect(wrong, { waitMs: 1000 }), why, what)
  }
})
