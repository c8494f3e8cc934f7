// What a gateway's start warns of: servers whose settings lose balances, each fault once.

import t from 'tap'
import type { Test } from 'tap'
import { connect } from '../../src/redis/connect.ts'
import type { RedisConfig } from '../../src/config/config.ts'
import { parseInfo } from '../../src/redis/server-kind.ts'
import { evictionFault, persistenceFault, warnOfSettings } from '../../src/redis/settings.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { startCluster } from '../fixtures/redis-cluster.ts'
import { startRedis } from '../fixtures/redis-server.ts'

async function warnings(t: Test, config: RedisConfig): Promise<readonly string[]> {
  const link = await connect(config)
  t.teardown(() => link.close())
  const told: string[] = []
  await warnOfSettings(link.client, {
    warn: (fields: object) => void told.push('detail' in fields ? String(fields.detail) : ''),
  })
  return told
}

const evicting = ['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru']

t.test(
  'a server that keeps everything is no news; one that may not is told each fault',
  async (t) => {
    const at = (path: string) => ({ kind: 'single', host: '', port: 0, path, db: 0 }) as const
    const good = await startRedis(t, { args: ['--appendonly', 'yes'] })
    t.same(await warnings(t, at(good.socket)), [])
    const bad = await startRedis(t, { args: evicting })
    t.match(await warnings(t, at(bad.socket)), [
      /^allkeys-lru: .*set maxmemory-policy noeviction$/,
      /^no append-only file: .*set appendonly yes$/,
    ])
  },
)

t.test('of a Cluster, the same fault of several primaries is told once', async (t) => {
  const cluster = await startCluster(t, { args: evicting })
  t.match(await warnings(t, cluster.config), [/^allkeys-lru: /])
})

t.test('a policy without a bound is a fault that is not certain yet', async (t) => {
  const info = (text: string) => parseInfo(text.replaceAll(' ', '\n'))
  t.match(evictionFault(info('maxmemory_policy:volatile-lru maxmemory:0')), { isCertain: false })
  t.match(evictionFault(info('maxmemory_policy:volatile-lru maxmemory:1')), { isCertain: true })
  t.equal(evictionFault(info('maxmemory_policy:noeviction maxmemory:1')), undefined)
  t.equal(persistenceFault(info('aof_enabled:1')), undefined)
})

t.test('a gateway that starts on such a server says so in its log', async (t) => {
  const redis = await startRedis(t, { args: evicting })
  const yaml = 'models: { demo: { targets: [demo] } }'
  const { log } = await startGateway(t, { redis, yaml })
  t.equal(log.filter((line) => /"detail":"allkeys-lru: .*may lose balances/.test(line)).length, 1)
})
