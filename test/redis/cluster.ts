// src/redis/cluster.ts on a real Cluster: one primary that dies takes only its own keys with it, the link says when the
// next one is there, and slots that move are followed.

import t from 'tap'
import type { Test } from 'tap'
import { keys } from '../../src/redis/keys.ts'
import { connect } from '../../src/redis/connect.ts'
import type { ConnectOptions, RedisLink } from '../../src/redis/connect.ts'
import { startCluster } from '../fixtures/redis-cluster.ts'
import type { RedisCluster } from '../fixtures/redis-cluster.ts'
import { runProcess } from '../fixtures/process.ts'
import { soon, until } from '../fixtures/until.ts'

const cluster = await startCluster(t, { args: ['--cluster-require-full-coverage', 'no'] })

async function linkTo(t: Test, options?: ConnectOptions): Promise<RedisLink> {
  await cluster.healthy()
  const link = await connect(cluster.config, options)
  t.teardown(() => link.close())
  return link
}

/** Refs with keys on each of the primaries. */
async function oneRefEach({ primaryOf, primaries }: RedisCluster): Promise<readonly string[]> {
  const wanted = (await primaries()).length
  const byPort = new Map<number, string>()
  for (let i = 0; byPort.size < wanted; i++) {
    const ref = `ref${i}`
    byPort.set((await primaryOf(keys.account(ref))).port, ref)
  }
  return [...byPort.values()]
}

t.test('all primaries are reached from one of their addresses', async (t) => {
  const [node] = cluster.config.nodes
  await cluster.healthy()
  const link = await connect({ kind: 'cluster', nodes: node ? [node] : [] })
  t.teardown(() => link.close())
  t.ok(link.up && link.isWhole)
  const refs = await oneRefEach(cluster)
  t.equal(refs.length, 3)
  for (const ref of refs) t.equal(await link.client.hset(keys.account(ref), 'id', ref), 1)
  const sent = Promise.all(refs.map((ref) => link.client.hget(keys.account(ref), 'id')))
  await link.written()
  t.strictSame(await sent, refs)
})

t.test('a server that is no Cluster is refused at once, with the reason', async (t) => {
  const none = { kind: 'cluster', nodes: [{ host: '127.0.0.1', port: 1 }] } as const
  await t.rejects(connect(none, { waitMs: 300 }), /127\.0\.0\.1:1 can't be used: .*ECONNREFUSED/)
})

t.test('slots that move under load: every command is answered, each runs once', async (t) => {
  const link = await linkTo(t)
  const [ref = ''] = await oneRefEach(cluster)
  const key = keys.account(ref)
  const slot = await link.client.cluster('KEYSLOT', key)
  const from = await cluster.primaryOf(key)
  const [to] = (await cluster.primaries()).filter((node) => node !== from)
  const counted = { sent: 0, isMoving: true }
  const count = async () => {
    while (counted.isMoving) {
      counted.sent++
      await link.client.hincrby(key, 'count', 1)
    }
  }
  const counting = Promise.all(Array.from({ length: 20 }, count))
  if (to) await cluster.moveSlot(slot, to)
  await cluster.moveSlot(slot, from)
  if (to) await cluster.moveSlot(slot, to)
  counted.isMoving = false
  await counting
  await until(async () => (await cluster.primaryOf(key)) === to) // the third node hears of it later
  t.equal(Number(await link.client.hget(key, 'count')), counted.sent)
  t.ok(link.up && link.isWhole)
})

t.test(
  'a primary that dies: only its keys are refused, and its replica is announced',
  async (t) => {
    const said: string[] = []
    const say = (_: object, message: string) => void said.push(message)
    const link = await linkTo(t, { log: { info: say, warn: say } })
    const events: string[] = []
    link.onReady(() => events.push('ready'))
    link.onLost(() => events.push('lost'))
    const refs = await oneRefEach(cluster)
    const [ref = '', other = ''] = refs
    const dying = await cluster.primaryOf(keys.account(ref))
    await dying.kill()
    await until(() => !link.isWhole)
    t.ok(link.up)
    await t.rejects(link.client.hset(keys.account(ref), 'a', 1), 'nothing is queued')
    t.equal(typeof (await link.client.exists(keys.account(other))), 'number', 'the others answer')
    await until(() => link.isWhole)
    t.ok(events.includes('ready'))
    t.notOk(events.includes('lost'))
    await link.client.hset(keys.account(ref), 'a', 1)
    // A node that took no part in the fail-over hears of it later.
    await until(async () => (await cluster.primaryOf(keys.account(ref))) !== dying)
    t.equal(said.filter((line) => line.startsWith('Redis is away')).length, 1)
    t.equal(said.filter((line) => line === 'Redis is connected again').length, 1)
    await dying.restart()
    await cluster.healthy()
  },
)

t.test('one primary is full: told once until it has room, and the others are used', async (t) => {
  const said: string[] = []
  const say = (_: object, message: string) => void said.push(message)
  const link = await linkTo(t, { log: { info: say, warn: say } })
  const [listed, ...refs] = [keys.accounts, ...(await oneRefEach(cluster)).map(keys.account)]
  const fine = await cluster.primaryOf(listed)
  const owners = await Promise.all(
    refs.map(async (key) => [key, await cluster.primaryOf(key)] as const),
  )
  const [key = '', full] = owners.find(([, node]) => node !== fine) ?? []
  const refused = async () => {
    const error = await link.client.hset(key, 'a', 1).then(() => undefined, String)
    return /OOM/.test(error ?? '')
  }
  await full?.client.config('SET', 'maxmemory', 1)
  t.ok(await refused())
  t.equal(link.outage.refuses, 'OOM')
  t.equal(link.outage.refusesAll, false)
  let probes = 0
  const probed = async () => {
    const stats = await fine.client.info('commandstats')
    return Number(/cmdstat_zadd:calls=(\d+)/.exec(stats)?.[1] ?? 0)
  }
  const before = await probed()
  await until(async () => {
    t.ok((await refused()) || t.fail('it has no room'))
    probes = (await probed()) - before
    return probes >= 30
  })
  t.equal(said.filter((line) => line.startsWith('Redis refuses to write')).length, 1)
  t.notOk(said.includes('Redis writes again'))
  await full?.client.config('SET', 'maxmemory', 0)
  await until(() => said.includes('Redis writes again'))
  t.equal(link.outage.refuses, undefined)
})

t.test('all nodes die and come back: lost once, then ready', async (t) => {
  const link = await linkTo(t)
  const events: string[] = []
  link.onReady(() => events.push('ready'))
  link.onLost(() => events.push('lost'))
  await Promise.all(cluster.nodes.map((node) => node.kill()))
  await until(() => !link.up)
  await t.rejects(link.client.get('a'))
  t.strictSame(events, ['lost'])
  await Promise.all(cluster.nodes.map((node) => node.restart()))
  await until(() => link.isWhole)
  t.equal(events[1], 'ready')
  const isSet = () => link.client.set('a', '1').then(Boolean, () => false)
  await until(isSet) // for a moment the Cluster itself says that it is down
})

t.test(
  'a process can end, although a node tells the slots only when the client is closed',
  async (t) => {
    await cluster.healthy()
    const program = `
    import { connect } from '${new URL('../../src/redis/connect.ts', import.meta.url).href}'
    const link = await connect(${JSON.stringify(cluster.config)})
    const { client } = link
    const ask = client.refreshSlotsCache.bind(client)
    let asked = 0
    client.refreshSlotsCache = (done) =>
      // The first may be the last one of the time when it was not whole.
      ++asked === 2 ? ask((error) => link.close().then(() => done(error))) : ask(done)`
    const words = [process.execPath, '--input-type=module', '--eval', program]
    t.match(await soon(runProcess(t, words)), { code: 0, err: '' })
  },
)
