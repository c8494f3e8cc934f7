// src/redis/join-writes.ts with two connections: each writes once a turn, and a turn is over when all have written. One
// connection is tested in connect.ts.

import { setImmediate as turn } from 'node:timers/promises'
import { Redis } from 'ioredis'
import t from 'tap'
import { createWrites } from '../../src/redis/join-writes.ts'
import { startRedis } from '../fixtures/redis-server.ts'

t.test('two connections leave together, at the end of the turn', async (t) => {
  const { socket } = await startRedis(t)
  const writes = createWrites()
  const clients = await Promise.all(
    [1, 2].map(async () => {
      const client = new Redis({ path: socket, lazyConnect: true, protocol: 2 })
      t.teardown(() => client.disconnect())
      await client.connect()
      writes.join(client)
      return client
    }),
  )
  const corked = () => clients.map(({ stream }) => stream.writableCorked)
  const nothing = writes.written()
  await nothing
  const answers = clients.map((client) => client.ping())
  t.same(corked(), [1, 1])
  t.not(writes.written(), nothing)
  t.equal(writes.written(), writes.written(), 'one promise a turn')
  let isOver = false
  void writes.written().then(() => {
    isOver = true
    t.same(corked(), [0, 0])
  })
  await turn()
  t.ok(isOver)
  t.same(await Promise.all(answers), ['PONG', 'PONG'])
})
