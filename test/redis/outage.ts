// What the log says of an outage of Redis.

import { EventEmitter } from 'node:events'
import t from 'tap'
import type { Test } from 'tap'
import { RedisOutage } from '../../src/redis/outage.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { connect } from '../../src/redis/connect.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { until } from '../fixtures/until.ts'

type Said = readonly [message: string, fields: object]

function listen() {
  const said: Said[] = []
  const note = (fields: object, message: string) => void said.push([message, fields])
  return { said, log: { info: note, warn: note } }
}

/** An outage log whose connection was up. */
function connected() {
  const { said, log } = listen()
  const outage = new RedisOutage({ log, probeKeys: ['z'] })
  const client = new EventEmitter()
  outage.watch(Object(client), client)
  client.emit('ready')
  t.same(said.splice(0), [['Redis is connected', {}]])
  const fail = (message: string) => client.emit('error', new Error(message))
  return { said, outage, client, fail }
}

const away = (reason: string): Said => ['Redis is away: work that needs it is refused', { reason }]

t.test('an outage is logged with the reason of the first failed connection, and no more', (t) => {
  const { said, outage, client, fail } = connected()
  client.emit('close')
  t.same(said, [], 'the reason is not known yet')
  for (let i = 0; i < 10; i++) {
    fail(i % 2 === 0 ? 'ECONNREFUSED' : 'ENOENT')
    client.emit('close')
    outage.count()
  }
  t.same(said.splice(0), [away('ECONNREFUSED')])
  client.emit('ready')
  t.match(said.splice(0), [['Redis is connected again', { refused: 10, away_ms: Number }]])
  client.emit('close')
  client.emit('ready')
  t.match(said, [away('the connection was closed'), ['Redis is connected again', { refused: 0 }]])
  t.end()
})

t.test('an error before the loss is its reason', (t) => {
  const { said, client, fail } = connected()
  fail('Socket timeout')
  t.same(said, [])
  client.emit('close')
  t.same(said, [away('Socket timeout')])
  t.end()
})

t.test('a fault that no retry can heal is logged during an outage, too', (t) => {
  const { said, client, fail } = connected()
  client.emit('close')
  fail('ECONNREFUSED')
  for (let i = 0; i < 3; i++) fail('WRONGPASS invalid username-password pair')
  t.same(said, [
    away('ECONNREFUSED'),
    ['Redis: a connection failed', { reason: 'WRONGPASS invalid username-password pair' }],
  ])
  t.end()
})

t.test('a connection that is closed on purpose is no outage', (t) => {
  const { said, client, outage } = connected()
  outage.close()
  client.emit('close')
  outage.answered('OOM command not allowed')
  t.same(said, [])
  t.equal(outage.refuses, undefined)
  t.end()
})

/** A link to a real Redis, which an operator may change. */
async function linked(t: Test) {
  const { socket } = await startRedis(t)
  const { said, log } = listen()
  const link = await connect({ kind: 'single', host: '', port: 0, path: socket, db: 0 }, { log })
  t.teardown(() => link.close())
  const operator = await connectLink(t, socket)
  said.splice(0)
  return { said, link, operator }
}

t.test('a Redis that refuses writes is logged once, and probed until it writes', async (t) => {
  const { said, link, operator } = await linked(t)
  await operator.client.config('SET', 'maxmemory', '1')
  for (let i = 0; i < 5; i++) {
    await t.rejects(link.client.set('a', 'b'), /^OOM/)
    link.outage.count()
  }
  t.equal(link.outage.refuses, 'OOM')
  await t.rejects(link.client.lpush('a', 'b'), /^OOM/)
  t.match(said.splice(0), [
    ['Redis refuses to write: work that needs it is refused', { reason: /^OOM/ }],
  ])
  await operator.client.config('SET', 'maxmemory', '0')
  await until(() => link.outage.refuses === undefined)
  t.match(said, [['Redis writes again', { refused: 5, refused_ms: Number }]])
  t.equal(await operator.client.dbsize(), 0, 'asking leaves nothing')
})

t.test('a master that became a replica is logged once, however often it is left', async (t) => {
  const { said, link, operator } = await linked(t)
  const warnings: Error[] = []
  const warned = (warning: Error) => void warnings.push(warning)
  process.on('warning', warned)
  t.teardown(() => process.off('warning', warned))
  await operator.client.replicaof('127.0.0.1', '1')
  let closed = 0
  link.client.on('close', () => closed++)
  while (closed < 5) {
    await until(() => link.up)
    await Promise.allSettled(Array.from({ length: 20 }, () => link.client.set('a', 'b')))
    await until(() => !link.up)
  }
  t.equal(link.outage.refuses, 'READONLY')
  t.match(said.splice(0), [
    ['Redis refuses to write: work that needs it is refused', { reason: /^READONLY/ }],
  ])
  await operator.client.replicaof('no', 'one')
  await until(() => link.outage.refuses === undefined)
  t.match(said, [['Redis writes again', { refused: 0, refused_ms: Number }]])
  t.same(warnings, [], 'no listener is added for each reply')
})

t.test('a connection that was left, and is there again, is no outage', (t) => {
  const { said, outage, client, fail } = connected()
  // The probe has found meanwhile that the replica is a master again.
  outage.leaves()
  client.emit('close')
  client.emit('ready')
  t.same(said, [])
  outage.leaves()
  fail('Socket closed unexpectedly')
  client.emit('close')
  client.emit('ready')
  t.same(said, [], 'nor when the close has a reason')
  outage.leaves()
  outage.count()
  client.emit('close')
  fail('ECONNREFUSED')
  outage.count()
  client.emit('ready')
  t.match(said.splice(0), [away('ECONNREFUSED'), ['Redis is connected again', { refused: 1 }]])
  client.emit('close')
  client.emit('ready')
  t.match(said, [away('the connection was closed'), ['Redis is connected again', {}]])
  t.end()
})

t.test('a replica that goes away is an outage like others', (t) => {
  const { said, outage, client, fail } = connected()
  outage.answered("READONLY You can't write against a read only replica.")
  said.splice(0)
  outage.count()
  client.emit('close')
  client.emit('ready')
  t.same(said, [])
  client.emit('close')
  fail('ECONNREFUSED')
  t.same(said.splice(0), [away('ECONNREFUSED')])
  t.equal(outage.refuses, undefined)
  client.emit('ready')
  t.match(said, [['Redis is connected again', { refused: 1 }]], 'since it refused to write')
  t.end()
})
