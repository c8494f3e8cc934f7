// src/redis/embedded/child.ts: how a server is handled that cannot start, cannot stop, or has lost its parent.

import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import {
  processEnd,
  endRedis,
  listens,
  ping,
  redisAnswers,
  spawnRedis,
} from '../../../src/redis/embedded/child.ts'
import type { RedisChild } from '../../../src/redis/embedded/child.ts'
import { redisServerPath } from '../../fixtures/redis-server.ts'
import { tempDir } from '../../fixtures/temp-dir.ts'

const server = await redisServerPath()

async function start(t: Test, ...args: string[]): Promise<{ child: RedisChild; socket: string }> {
  const dir = await tempDir(t)
  const socket = join(dir, 's')
  const child = spawnRedis(server, ['--port', '0', '--unixsocket', socket, ...args], dir)
  t.teardown(() => endRedis(child, 'SIGKILL'))
  return { child, socket }
}

t.test('its pid is that of the server, and it answers as soon as it is ready', async (t) => {
  const { child, socket } = await start(t)
  await redisAnswers(child, socket, 10_000)
  t.equal(await ping(socket), true)
  process.kill(child.pid ?? 0, 'SIGKILL')
  await processEnd(child)
  t.equal(child.signalCode, 'SIGKILL')
  t.equal(await ping(socket), false)
  t.equal(await listens(socket), false)
})

t.test('it ends when the pipe to it closes', async (t) => {
  const { child, socket } = await start(t)
  await redisAnswers(child, socket, 10_000)
  child.stdin.destroy()
  await processEnd(child)
  t.equal(child.exitCode, 0)
})

t.test('a server that hangs is killed after a while, and is running until then', async (t) => {
  const { child, socket } = await start(t)
  await redisAnswers(child, socket, 10_000)
  child.kill('SIGSTOP')
  t.equal(await listens(socket), true)
  await endRedis(child, 'SIGTERM', 50)
  t.equal(child.signalCode, 'SIGKILL')
  await endRedis(child)
})

t.test('a start that fails rejects with the output of the server', async (t) => {
  const { child, socket } = await start(t, '--no-such-setting', 'yes')
  await t.rejects(redisAnswers(child, socket, 10_000), /ended at once[^]*no-such-setting/)
})

t.test('a missing folder counts as a server that has ended, not as a crash', async (t) => {
  const child = spawnRedis(server, [], '/no/such/folder')
  await processEnd(child)
  await endRedis(child)
  await t.rejects(redisAnswers(child, '/no/such/socket', 10_000), /ended at once/)
})
