// src/redis/connect.ts with real servers: what a link promises when Redis is killed, hangs, refuses or uses TLS.

import { setImmediate as turn } from 'node:timers/promises'
import { Redis } from 'ioredis'
import t from 'tap'
import type { Test } from 'tap'
import { bothWays } from '../fixtures/both-ways.ts'
import type { RedisConfig } from '../../src/config/config.ts'
import { createClient, isCluster } from '../../src/redis/client.ts'
import { connect } from '../../src/redis/connect.ts'
import type { ConnectOptions, RedisLink } from '../../src/redis/connect.ts'
import { RedisOutage } from '../../src/redis/outage.ts'
import { certificate } from '../fixtures/certificate.ts'
import { startDelayProxy } from '../fixtures/delay-proxy.ts'
import { freePort } from '../fixtures/free-port.ts'
import { clientTls, tlsFiles } from '../fixtures/redis-node.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { standStill } from '../fixtures/stand-still.ts'
import { eventually, until } from '../fixtures/until.ts'

const at = (path: string): RedisConfig & { kind: 'single' } => ({
  kind: 'single',
  host: '127.0.0.1',
  port: 0,
  db: 0,
  path,
})

async function linkTo(t: Test, path: string, options?: ConnectOptions): Promise<RedisLink> {
  const link = await connect(at(path), options)
  t.teardown(() => link.close())
  return link
}

/** Why it can't be used. A try that was given up too early is repeated with more time. */
async function whyNot(config: RedisConfig, waitMs = 100): Promise<string> {
  const error = await connect(config, { waitMs }).then(() => 'it can be used', String)
  return error.includes('no answer within') ? await whyNot(config, 2 * waitMs) : error
}

/** The client of a link to one server. */
function singleOf({ client }: RedisLink): Redis {
  if (!('stream' in client)) throw new Error('a Cluster')
  return client
}

const withWrites = bothWays(t, 'redis-writes')

const next = (on: (listener: () => void) => void) => new Promise<void>((done) => on(done))

t.test('a working link answers, also to the embedded server', async (t) => {
  const { socket } = await startRedis(t)
  const link = await connect({ kind: 'embedded' }, { embeddedSocket: socket })
  t.teardown(() => link.close())
  t.equal(link.up, true)
  t.equal(await link.client.ping(), 'PONG')
  await t.rejects(connect({ kind: 'embedded' }), /has not been started/)
})

t.test('TLS with certificates on both sides, a user, and another database', async (t) => {
  const { cert, key } = certificate
  const port = await freePort()
  const users = ['--user', 'default', 'off', '--user', 'gate', 'on', '>s3cret', '~*', '+@all']
  await startRedis(t, { args: ['--tls-port', String(port), ...tlsFiles, ...users] })
  const place = { kind: 'single', host: 'localhost', port, db: 3 } as const
  const good = { ...place, username: 'gate', password: 's3cret', tls: clientTls }
  const link = await connect(good)
  t.teardown(() => link.close())
  await link.client.set('a', '1')
  t.match(await link.client.client('INFO'), /db=3 .*user=gate /)

  const wrong = connect({ ...good, password: 'wr0ng' }, { waitMs: 60_000 })
  const error = await wrong.then(() => t.fail('must not connect'), String)
  t.match(error, /localhost:\d+ can't be used: WRONGPASS/)
  t.notMatch(error, /wr0ng/)
  const stranger = await whyNot({ ...good, tls: { cert, key } })
  t.match(stranger, /self.signed/, 'an unknown authority is told')
  const unsigned = await whyNot({ ...good, tls: { ca: cert } })
  t.match(unsigned, /can't be used/, 'the server wants a certificate')
  const spoilt = connect({ ...good, tls: { ca: cert, cert, key: 'no key' } }, { waitMs: 60_000 })
  await t.rejects(spoilt, /can't be used/, 'a key that is none is told at once')
})

t.test('closed while TLS shakes hands: a connection that fails twice ends nothing', async (t) => {
  const port = await freePort()
  await startRedis(t, { args: ['--tls-port', String(port), ...tlsFiles] })
  const tls = { ...clientTls, ca: certificate.renewed.cert }
  const outage = new RedisOutage({ log: undefined, probeKeys: [] })
  for (let i = 0; i < 10; i++) {
    const client = createClient({ kind: 'single', host: 'localhost', port, db: 0, tls }, { outage })
    if (isCluster(client)) throw new Error('a Cluster')
    const errors: Error[] = []
    client.on('error', (error) => errors.push(error))
    const ended = next((listener) => client.once('end', listener))
    client.connect().catch(() => undefined) // `error` has the reason
    while (!client.stream) await turn()
    await next((listener) => client.stream.once('connect', listener))
    client.disconnect()
    // Redis takes the end as a fault of TLS: its certificate, which is refused here, and its alert are read at once.
    standStill(20)
    await ended
    t.match(errors, [{ code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }])
  }
})

t.test('a fault that no retry can heal is reported at once, others after a while', async (t) => {
  const { socket } = await startRedis(t)
  await t.rejects(connect({ ...at(socket), db: 99 }, { waitMs: 60_000 }), /DB index/)
  t.match(await whyNot(at(`${socket}-none`)), /-none can't be used: .*ENOENT/)
})

t.test('killed and started again: lost once, ready once, refused at once in between', async (t) => {
  const redis = await startRedis(t)
  const notices: string[] = []
  const note = (_: object, message: string) => void notices.push(message)
  const link = await linkTo(t, redis.socket, { log: { info: note, warn: note } })
  const events: string[] = []
  link.onReady(() => events.push(`ready ${link.up}`))
  link.onLost(() => events.push(`lost ${link.up}`))
  const lost = next(link.onLost)
  await redis.kill()
  await lost
  t.equal(link.up, false)
  await t.rejects(link.client.ping(), /isn't writeable/, 'nothing is queued')
  const ready = next(link.onReady)
  await redis.restart()
  await ready
  t.equal(await link.client.ping(), 'PONG')
  t.strictSame(events, ['lost false', 'ready true'])
  t.equal(notices.filter((notice) => notice.includes('away')).length, 1)
  t.equal(notices.filter((notice) => notice.includes('is connected')).length, 2)
})

withWrites('a debit whose reply is lost runs once', async (t) => {
  const redis = await startRedis(t)
  const proxy = await startDelayProxy(t, redis.socket)
  const link = await linkTo(t, proxy.socket)
  const direct = await linkTo(t, redis.socket)
  proxy.stall()
  const debit = link.client.incr('spent')
  const refused = t.rejects(debit)
  while ((await direct.client.get('spent')) === null) await turn()
  const ready = next(link.onReady)
  proxy.cut()
  proxy.resume()
  await Promise.all([refused, ready])
  t.equal(await link.client.incr('after'), 1)
  t.equal(await direct.client.get('spent'), '1')
})

withWrites('what onReady sends arrives before what others send', async (t) => {
  const redis = await startRedis(t)
  const proxy = await startDelayProxy(t, redis.socket)
  const link = await linkTo(t, proxy.socket)
  for (const name of ['a', 'b', 'c']) {
    link.onReady(() => void link.client.append('order', name).catch(t.error))
  }
  const lost = next(link.onLost)
  proxy.cut()
  await lost
  while (!link.up) await turn()
  await link.client.append('order', 'd')
  t.equal(await link.client.get('order'), 'abcd')
})

t.test('a master that became a replica is left for a new connection', async (t) => {
  const redis = await startRedis(t)
  const link = await linkTo(t, redis.socket)
  await link.client.replicaof('127.0.0.1', 1)
  const back = Promise.all([next(link.onLost), next(link.onReady)])
  const error = await link.client.set('secret', 'text').then(
    () => undefined,
    (e: Error) => e,
  )
  t.equal(error?.name, 'ReplyError')
  t.match(error?.message, /^READONLY/)
  t.notMatch(JSON.stringify(error), /secret|text/, 'an error does not carry the arguments')
  await back
  await link.client.replicaof('NO', 'ONE')
  t.equal(await link.client.set('a', '1'), 'OK')
})

t.test('a replica is left once a second, not for each command that it refuses', async (t) => {
  const redis = await startRedis(t)
  const link = await linkTo(t, redis.socket)
  const connections = async () => {
    const found = /total_connections_received:(\d+)/.exec(await link.client.info('stats'))
    return Number(found?.[1])
  }
  const before = await connections()
  const begunMs = performance.now()
  await link.client.replicaof('127.0.0.1', '1')
  for (let refused = 0; refused < 20;) {
    const said = await link.client.set('a', '1').catch(String)
    if (said?.includes('READONLY')) refused++
    else await turn()
  }
  const seconds = (performance.now() - begunMs) / 1000
  const after = await eventually(() => connections().catch(() => undefined))
  const opened = after - before
  t.ok(opened >= 1 && opened <= 1 + seconds / 0.9, `${opened} in ${seconds} s`)
})

t.test('a server hangs: commands time out, the connection is replaced', async (t) => {
  const redis = await startRedis(t)
  const link = await linkTo(t, redis.socket, { commandTimeoutMs: 150 })
  const lost = next(link.onLost)
  process.kill(redis.pid, 'SIGSTOP')
  await t.rejects(link.client.ping(), /timed out/)
  await lost
  const ready = next(link.onReady)
  process.kill(redis.pid, 'SIGCONT')
  await ready
  // On a busy machine another connection may be given up.
  const ping = () => link.client.ping().catch(() => 'none')
  await until(async () => (await ping()) === 'PONG')
})

withWrites('the commands of one turn leave together, at its end', async (t, isPlain) => {
  const { socket } = await startRedis(t)
  const client = singleOf(await linkTo(t, socket))
  const replies = Promise.all(Array.from({ length: 50 }, () => client.incr('n')))
  t.equal(client.stream.writableCorked, isPlain ? 0 : 1)
  await turn()
  t.equal(client.stream.writableCorked, 0)
  t.equal((await replies).at(-1), 50)
})

withWrites('what a turn has sent is on the wire when it is said to be', async (t, isPlain) => {
  const { socket } = await startRedis(t)
  const link = await linkTo(t, socket)
  const client = singleOf(link)
  const ended: boolean[] = []
  const unsent = () => client.stream.writableCorked > 0 || client.stream.writableLength > 0
  await link.written()
  for (const value of ['1', '2']) {
    const answered = client.set('a', value)
    t.equal(unsent(), !isPlain)
    t.equal(link.written(), link.written(), 'one promise a turn')
    await Promise.all([link.written(), link.written().then(() => ended.push(unsent()))])
    t.notOk(unsent())
    await answered
  }
  t.same(ended, [false, false])
  const back = Promise.all([next(link.onLost), next(link.onReady)])
  const lost = client.set('a', '3').catch(() => undefined)
  const waited = link.written()
  client.disconnect(true)
  await Promise.all([waited, lost, back])
  const again = client.set('a', '4')
  await link.written()
  t.notOk(unsent(), 'on the connection that there is now')
  await again
})

withWrites('what a turn has sent goes out although the connection is closed in it', async (t) => {
  const { socket } = await startRedis(t)
  const client = singleOf(await linkTo(t, socket))
  const other = singleOf(await linkTo(t, socket))
  const bytes = Buffer.from([0xff, 0])
  const words = ['a', 'ä€', 'b', bytes, 'c', 'plain']
  const lost = client.mset(...words).catch(() => undefined)
  const last = client.set('d', 'last').catch(() => undefined)
  client.disconnect()
  await Promise.all([lost, last])
  await until(async () => (await other.get('d')) === 'last')
  t.same(await other.mget('a', 'c'), ['ä€', 'plain'])
  t.same(await other.getBuffer('b'), bytes)
})

withWrites('close waits for replies under way, and ends also while Redis is away', async (t) => {
  const redis = await startRedis(t)
  const proxy = await startDelayProxy(t, redis.socket)
  proxy.setDelay(50)
  const slow = await connect(at(proxy.socket))
  const reply = slow.client.incr('n')
  await slow.close()
  t.equal(await reply, 1)
  t.equal(slow.up, false)
  await slow.close()

  const away = await connect(at(redis.socket))
  const lost = next(away.onLost)
  await redis.kill()
  await lost
  await away.close()
  t.equal(away.up, false)
})

// As ioredis does when the Sentinels announce a fail-over at that moment; it then ends the client for good.
const stop = (client: Redis) =>
  (Reflect.get(client, 'connector') as { disconnect(): void }).disconnect()

t.test('a client whose connector stops while it connects is connected again', async (t) => {
  const redis = await startRedis(t)
  const link = await linkTo(t, redis.socket)
  const client = singleOf(link)
  let ends = 0
  client.on('end', () => ends++)
  client.once('connecting', () => stop(client))
  client.disconnect(true)
  await until(() => ends > 0)
  await until(() => link.up)
  t.equal(await link.client.ping(), 'PONG')
  await link.close()
  t.equal(client.status, 'end', 'and after its end it stays ended')
})

t.test('so is one whose connector stops while it connects for the first time', async (t) => {
  const redis = await startRedis(t)
  const { connect: first } = Redis.prototype
  t.intercept(Redis.prototype, 'connect', {
    value(this: Redis) {
      Redis.prototype.connect = first
      const connected = this.connect()
      stop(this)
      return connected
    },
    writable: true,
  })
  const link = await linkTo(t, redis.socket)
  t.equal(await link.client.ping(), 'PONG')
})
