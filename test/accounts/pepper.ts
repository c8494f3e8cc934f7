import t from 'tap'
import type { Test } from 'tap'
import { claimPepper } from '../../src/accounts/pepper.ts'
import { z } from '../../src/config/schema.ts'
import type { Plugin } from '../../src/plugin.ts'
import { keys } from '../../src/redis/keys.ts'
import { startPortal } from '../fixtures/account-page.ts'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { Gate } from '../fixtures/gate.ts'
import { startGateway } from '../fixtures/gateway.ts'
import type { InProcess } from '../fixtures/gateway.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { ask } from '../fixtures/money.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { until } from '../fixtures/until.ts'

const yamlOf = (pepper: string, more = '') => `
models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }
plugins:
  auth: { pepper: '${pepper}' }
${more}`
const other = /plugins\.auth\.pepper is not the one under which the keys in this Redis are made/

async function balanceStatus(gateway: InProcess, key: string): Promise<number> {
  const { status } = await gateway.call('/api/billing/balance', key)
  return status
}

/** A Redis as a version leaves it that notes nothing, with a key under `cayenne`. */
async function startUnnoted(t: Test) {
  const redis = await startRedis(t)
  const { client } = await connectLink(t, redis.socket)
  const gateway = await startGateway(t, { redis, yaml: yamlOf('cayenne') })
  const account = await gateway.account(1000)
  await gateway.close()
  await client.del(keys.pepper)
  return { redis, client, ...account }
}

t.test('with another pepper, a gateway does not start, and does not reload', async (t) => {
  const redis = await startRedis(t)
  const first = await startGateway(t, { redis, yaml: yamlOf('cayenne') })
  const { key } = await first.account(10)
  for (const pepper of ['chili', '']) {
    await t.rejects(startGateway(t, { redis, yaml: yamlOf(pepper) }), { message: other }, pepper)
    await first.rewrite(yamlOf(pepper))
    await t.rejects(first.gateway.reload('test'), 'a reload is refused')
  }
  t.match(first.log.join(''), other)
  t.equal(await balanceStatus(first, key), 200, 'the key is as valid as before')
  const second = await startGateway(t, { redis, yaml: yamlOf('cayenne') })
  t.equal(await balanceStatus(second, key), 200)
})

t.test('before the first key, too: else two gateways would make keys of two peppers', async (t) => {
  const redis = await startRedis(t)
  const first = await startGateway(t, { redis, yaml: yamlOf('cayenne') })
  await t.rejects(startGateway(t, { redis, yaml: yamlOf('chili') }), { message: other })
  await first.rewrite(yamlOf('chili'))
  await t.rejects(first.gateway.reload('test'), 'a reload is refused')
  const { key } = await first.account(10)
  const second = await startGateway(t, { redis, yaml: yamlOf('cayenne') })
  t.equal(await balanceStatus(second, key), 200)
})

t.test('when the operator gives up all keys, another one is taken', async (t) => {
  const redis = await startRedis(t)
  const gateway = await startGateway(t, { redis, yaml: yamlOf('cayenne') })
  const { id, key } = await gateway.account(10)
  const old = await gateway.keyFor(id)
  const { client } = await connectLink(t, redis.socket)
  await client.del(keys.pepper)
  await gateway.rewrite(yamlOf('chili'))
  await gateway.gateway.reload('test')
  t.match(gateway.log.join(''), /Redis does not know yet which pepper its keys have/)
  t.equal(await balanceStatus(gateway, key), 401)
  t.equal(await balanceStatus(gateway, (await gateway.keyFor(id)).key), 200)
  const rotation = await gateway.admin('POST', `keys/${old.id}/rotate`, { grace: 0 })
  const rotated = (await rotation.json()) as { key: string }
  t.equal(await balanceStatus(gateway, rotated.key), 200, 'a key is rotated by its id')
  await until(async () => (await client.exists(keys.pepper)) === 1)
  await t.rejects(startGateway(t, { redis, yaml: yamlOf('cayenne') }), { message: other })
})

t.test(
  'where there are keys and nothing is noted, a key proves which pepper is right',
  async (t) => {
    const { redis, client, key } = await startUnnoted(t)
    const wrong = await startGateway(t, { redis, yaml: yamlOf('chili') })
    t.equal(await balanceStatus(wrong, key), 401)
    t.equal(await client.get(keys.pepper), null, 'a wrong one is not noted')
    const right = await startGateway(t, { redis, yaml: yamlOf('cayenne') })
    t.equal(await balanceStatus(right, key), 200)
    await until(async () => (await client.exists(keys.pepper)) === 1)
    await t.rejects(startGateway(t, { redis, yaml: yamlOf('chili') }), { message: other })
  },
)

t.test('a key of the playground proves nothing: a wrong gateway makes it, too', async (t) => {
  const { redis, client, id, key } = await startUnnoted(t)
  // Without a pepper.
  const wrong = await startPortal(t, { redis })
  const { body } = await (await wrong.enter(id)).call('POST playground-key')
  t.equal(await balanceStatus(wrong, body.key), 403, 'it is valid')
  t.equal((await wrong.call('/v1/models', body.key)).status, 200)
  const right = await startGateway(t, { redis, yaml: yamlOf('cayenne') })
  t.equal(await balanceStatus(right, key), 200)
  await until(async () => (await client.exists(keys.pepper)) === 1)
  await wrong.rewrite(yamlOf('cayenne'))
  t.ok(await wrong.gateway.reload('test'), 'the right one was noted')
})

t.test('a key of the playground does not undo what another key has proven', async (t) => {
  const redis = await startRedis(t)
  const { client } = await connectLink(t, redis.socket)
  const first = await startGateway(t, { redis, yaml: yamlOf('') })
  const { id, key } = await first.account(10)
  await first.close()
  // As an earlier version leaves it.
  await client.del(keys.pepper)
  const gateway = await startPortal(t, { redis })
  const { body } = await (await gateway.enter(id)).call('POST playground-key')
  await client.call('ACL', 'SETUSER', 'default', '-set')
  const tried = async (theirs: string) => {
    await client.config('RESETSTAT')
    await until(async () => {
      await gateway.call('/v1/models', theirs)
      return /cmdstat_hexists:calls=[1-9]/.test(await client.info('commandstats'))
    })
  }
  await tried(key)
  await tried(body.key)
  await client.call('ACL', 'SETUSER', 'default', '+set')
  await gateway.rewrite(yamlOf('chili'))
  await t.rejects(gateway.gateway.reload('test'), { message: other })
})

t.test('while Redis is away, only a reload with the same pepper goes through', async (t) => {
  const redis = await startRedis(t)
  const gateway = await startGateway(t, { redis, yaml: yamlOf('cayenne') })
  await redis.stop()
  await gateway.rewrite(yamlOf('cayenne', 'limits: { heartbeat: 20s }'))
  t.match(await gateway.gateway.reload('test'), [{ path: ['limits', 'heartbeat'] }])
  await gateway.rewrite(yamlOf('chili'))
  const message = /plugins\.auth: Redis does not tell whether the pepper is the right one: /
  await t.rejects(gateway.gateway.reload('test'), { message })
})

t.test('what could not be noted at the start is noted before another one is taken', async (t) => {
  const { redis, client, key } = await startUnnoted(t)
  await client.config('SET', 'maxmemory', '1')
  const again = await startGateway(t, { redis, yaml: yamlOf('cayenne') })
  t.match(again.log.join(''), /Redis does not know yet which pepper its keys have/)
  // The key is valid, although this request cannot be counted.
  await balanceStatus(again, key)
  await until(() => again.log.some((line) => line.includes('"route":"/api/billing/balance"')))
  await client.config('SET', 'maxmemory', '0')
  await again.rewrite(yamlOf('chili'))
  await t.rejects(again.gateway.reload('test'), { message: other })
  t.equal(await balanceStatus(again, key), 200)
})

t.test('while the memory of Redis is full, a gateway starts', async (t) => {
  const { client } = await connectLink(t, (await startRedis(t)).socket)
  await client.config('SET', 'maxmemory', '1')
  await claimPepper(client, 'cayenne')
  t.equal(await client.get(keys.pepper), null, 'it could not be noted')
  await client.config('SET', 'maxmemory', '0')
  await claimPepper(client, 'cayenne')
  await client.config('SET', 'maxmemory', '1')
  await claimPepper(client, 'cayenne')
  await t.rejects(claimPepper(client, 'chili'), { message: other })
})

t.test('of gateways that start at once, one notes its pepper; a look notes nothing', async (t) => {
  const { client } = await connectLink(t, (await startRedis(t)).socket)
  t.equal(await claimPepper(client, 'cayenne', { isLook: true }), false)
  t.equal(await client.exists(keys.pepper), 0)
  const claims = ['cayenne', 'chili', 'paprika'].map((pepper) => claimPepper(client, pepper))
  const outcomes = await Promise.allSettled(claims)
  t.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1)
  await t.rejects(claimPepper(client, 'curry', { isLook: true }), { message: other })
})

/** A plugin that refuses the configurations that tell it to, after `auth` has been set up. */
const picky: Plugin = {
  name: 'picky',
  schema: z.strictObject({ refuse: z.boolean().default(false) }),
  setup(_gateway, settings) {
    if ((settings as { refuse: boolean }).refuse) throw new Error('another mistake')
    return {}
  },
}
const refused = '  picky: { refuse: true }'

t.test('a reload that another mistake stops is none for the pepper either', async (t) => {
  const { redis, client, key } = await startUnnoted(t)
  const gateway = await startGateway(t, { redis, ownPlugins: [picky], yaml: yamlOf('cayenne') })
  await gateway.rewrite(yamlOf('chili', refused))
  await t.rejects(gateway.gateway.reload('test'), { message: /another mistake/ })
  t.equal(await balanceStatus(gateway, key), 200)
  await until(async () => (await client.exists(keys.pepper)) === 1)
  await gateway.rewrite(yamlOf('chili'))
  await t.rejects(
    gateway.gateway.reload('test'),
    { message: other },
    'a key has proven the old one',
  )
  t.equal(await balanceStatus(gateway, key), 200)
})

t.test('nor does it note its pepper: the gateway makes keys of the one before', async (t) => {
  const redis = await startRedis(t)
  const { client } = await connectLink(t, redis.socket)
  const gateway = await startGateway(t, { redis, ownPlugins: [picky], yaml: yamlOf('cayenne') })
  await client.del(keys.pepper)
  await gateway.rewrite(yamlOf('chili', refused))
  await t.rejects(gateway.gateway.reload('test'), { message: /another mistake/ })
  t.equal(await client.exists(keys.pepper), 0)
  await redis.stop()
  await gateway.rewrite(yamlOf('cayenne', 'limits: { heartbeat: 20s }'))
  t.match(await gateway.gateway.reload('test'), [{ path: ['limits', 'heartbeat'] }])
})

t.test('where there is no key, the first request after a reload notes the pepper', async (t) => {
  const redis = await startRedis(t)
  const { client } = await connectLink(t, redis.socket)
  const gateway = await startGateway(t, { redis, yaml: yamlOf('cayenne') })
  await client.del(keys.pepper)
  await gateway.rewrite(yamlOf('chili'))
  await gateway.gateway.reload('test')
  t.equal(await client.exists(keys.pepper), 0)
  t.equal(await balanceStatus(gateway, 'wrong'), 401)
  await until(async () => (await client.exists(keys.pepper)) === 1)
  await t.rejects(startGateway(t, { redis, yaml: yamlOf('cayenne') }), { message: other })
})

t.test('what Redis could not note when a key proved it, a later key notes', async (t) => {
  const { redis, client, key } = await startUnnoted(t)
  const gateway = await startGateway(t, { redis, yaml: yamlOf('cayenne') })
  await client.call('ACL', 'SETUSER', 'default', '-set')
  t.equal(await balanceStatus(gateway, key), 200)
  await until(async () =>
    /cmdstat_set:.*rejected_calls=[1-9]/.test(await client.info('commandstats')),
  )
  await client.call('ACL', 'SETUSER', 'default', '+set')
  await until(async () => {
    await balanceStatus(gateway, key)
    return (await client.exists(keys.pepper)) === 1
  })
})

t.test('a request that outlives its pepper does not have it noted', async (t) => {
  const { redis, client, id, key } = await startUnnoted(t)
  const gate = new Gate()
  const backend = await startBackend(t, chat({ chunks: 1, gate }))
  const slow = `models: { slow: { targets: [{ url: '${backend.url}' }] } }`
  const yaml = (pepper: string) => yamlOf(pepper).replace(/^models: .*$/m, slow)
  const gateway = await startGateway(t, { redis, yaml: yaml('cayenne') })
  const asked = gateway.call('/v1/chat/completions', key, { ...ask(1, false), model: 'slow' })
  await backend.request(0)
  await gateway.rewrite(yaml('chili'))
  await gateway.gateway.reload('test')
  const { key: newKey } = await gateway.keyFor(id)
  gate.open()
  t.equal((await asked).status, 200)
  await until(() => gateway.log.some((line) => line.includes('"route":"/v1/chat/completions"')))
  t.equal(await balanceStatus(gateway, newKey), 200)
  await until(async () => (await client.exists(keys.pepper)) === 1)
  t.ok(await startGateway(t, { redis, yaml: yaml('chili') }))
})

t.test('a start does not wait for a Redis that will never tell', async (t) => {
  const { client } = await connectLink(t, (await startRedis(t)).socket)
  for (const command of ['get', 'exists']) {
    await client.call('ACL', 'SETUSER', 'default', '+@all', `-${command}`)
    const claim = claimPepper(client, 'cayenne', { patienceMs: 60_000 })
    const message = /^Redis does not tell whether the pepper is the right one: NOPERM/
    await t.rejects(claim, { message }, command)
  }
})
