// A gateway starts while its connection to Redis is lost, whatever it has just sent: it connects again and serves.

import { connect, createServer } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import { startGateway } from '../fixtures/gateway.ts'
import { listenOnSocket } from '../fixtures/listen.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { until } from '../fixtures/until.ts'

const server = await startRedis(t)

/** Closes the first connection when that sends its nth piece; that piece does not reach Redis. */
async function cutAt(t: Test, nth: number) {
  let pieces = 0
  let connections = 0
  let hasEnded = false
  const proxy = createServer((client) => {
    const isFirst = ++connections === 1
    const redis = connect(server.socket)
    client.on('data', (piece) => {
      if (isFirst && !hasEnded && ++pieces === nth) client.destroy()
      else redis.write(piece)
    })
    redis.pipe(client)
    client.on('close', () => redis.destroy())
    for (const socket of [client, redis]) socket.on('error', () => undefined)
  })
  const socket = await listenOnSocket(t, proxy)
  /** Cuts nothing any more. Returns whether it has cut. */
  const end = () => {
    hasEnded = true
    return pieces >= nth
  }
  return { url: `unix://${socket}`, end }
}

const yaml = 'models: { demo: { targets: [demo] } }'

let nth = 0
for (let isCut = true; isCut;) {
  nth += 1
  isCut = false
  await t.test(`at piece ${nth} of its first connection`, async (t) => {
    const proxy = await cutAt(t, nth)
    const { account, call, gateway } = await startGateway(t, { yaml, redisUrl: proxy.url })
    isCut = proxy.end()
    // The last piece may have been cut just now, and the gateway not have noticed.
    const isUp = () =>
      gateway.redis.client.ping().then(
        () => gateway.ledger.isOpen,
        () => false,
      )
    await until(isUp)
    const { key } = await account(1000)
    t.equal((await call('/api/chat/sessions', key, {})).status, 201)
  })
}
t.ok(nth > 4, `${nth - 1} pieces were cut`)
