// src/redis/script-commands.ts: a script's command ends as every other command of ioredis does, by its reply, by an error of
// Redis, by time and by a lost connection, and gives it the same forms of words. What stays in memory is measured in
// test/journeys/old-space.ts.

import { setTimeout as wait } from 'node:timers/promises'
import { Cluster } from 'ioredis'
import t from 'tap'
import { bothWays } from '../fixtures/both-ways.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { soon } from '../fixtures/until.ts'

const test = bothWays(t, 'script-commands')
const echo = 'return { KEYS[1], ARGV[1], #ARGV[2], 7, false, { ARGV[3] } }'

test('a script gets its words, and its reply comes as text and numbers', async (t) => {
  const { socket } = await startRedis(t)
  const { client } = await connectLink(t, socket)
  const sha = String(await client.script('LOAD', echo))
  const bytes = Buffer.from([0xff, 0, 0xc3, 0x28])
  for (const text of ['plain', 'ä\r\n$5', '']) {
    const reply = await client.evalsha(sha, 1, 'key', text, bytes, 12)
    t.strictSame(reply, ['key', text, 4, 7, null, ['12']])
  }
})

test('lists of words and a callback are taken as by any other command', async (t) => {
  const { socket } = await startRedis(t)
  const { client } = await connectLink(t, socket)
  const sha = String(await client.script('LOAD', echo))
  const answer = ['key', 'a', 1, 7, null, ['c']]
  // Their types have no lists.
  const words: readonly string[] = [['key', 'a'], 'b', ['c']] as never
  t.strictSame(await client.evalsha(sha, 1, ...words), answer)
  const called = new Promise((done) =>
    client.evalsha(sha, 1, 'key', 'a', 'b', 'c', (_, it) => done(it)),
  )
  t.strictSame(await soon(called), answer)
})

test('an error of Redis, silence and a lost connection reject', async (t) => {
  const redis = await startRedis(t)
  const { client } = await connectLink(t, redis.socket, 150)
  const unknown = client.evalsha('0'.repeat(40), 0)
  await t.rejects(unknown, { name: 'ReplyError', message: /^NOSCRIPT/ })
  const sha = String(await client.script('LOAD', "return redis.error_reply('MINE it is')"))
  await t.rejects(client.evalsha(sha, 0), { name: 'ReplyError', message: 'MINE it is' })
  process.kill(redis.pid, 'SIGSTOP')
  await t.rejects(soon(client.evalsha(sha, 0)), { message: 'Command timed out' })
  const lost = client.evalsha(sha, 0)
  client.disconnect()
  // A server that has stopped does not close its side.
  if (!(client instanceof Cluster)) client.stream.destroy()
  await t.rejects(soon(lost), { message: /Connection is closed/ })
  process.kill(redis.pid, 'SIGCONT')
  await t.rejects(client.evalsha(sha, 0), { message: /closed|writeable/ })
})

test('each script has the whole time for its reply', async (t) => {
  const redis = await startRedis(t)
  const { client } = await connectLink(t, redis.socket, 150)
  if (client instanceof Cluster) throw new Error('a Cluster has no time-out of its own to set')
  // Else the connection would be given up before the last script.
  delete client.options.socketTimeout
  const sha = String(await client.script('LOAD', 'return 1'))
  const msOf = async () => {
    const begun = performance.now()
    await t.rejects(soon(client.evalsha(sha, 0)), { message: 'Command timed out' })
    return performance.now() - begun
  }
  t.equal(await client.evalsha(sha, 0), 1, 'answered, so its time-out concerns nobody')
  process.kill(redis.pid, 'SIGSTOP')
  const first = msOf()
  await wait(70)
  const all = await Promise.all([first, msOf(), msOf()])
  for (const ms of all) t.ok(ms >= 149, `${ms} ms`)
  t.ok((await msOf()) >= 149, 'another one, when none was waiting')
  process.kill(redis.pid, 'SIGCONT')
})
