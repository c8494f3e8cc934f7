// src/files/open.ts: the parts that files need work together, and close.

import { join } from 'node:path'
import t from 'tap'
import { openShelf } from '../../src/files/open.ts'
import { newId } from '../../src/ids.ts'
import { createMetrics } from '../../src/metrics.ts'
import { diskStore } from '../../src/store/disk.ts'
import { addSession, quotaBytes } from '../fixtures/file-rows.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { tempDir } from '../fixtures/temp-dir.ts'
import { until } from '../fixtures/until.ts'

t.test('a shelf keeps files, its scripts are timed, and it closes', async (t) => {
  const { socket } = await startRedis(t)
  const redis = await connectLink(t, socket)
  const metrics = createMetrics('test')
  const store = diskStore(join(await tempDir(t), 'store'))
  const parts = { redis, store, metrics, log: { warn() {} } }
  const opened = await openShelf({ plugins: new Map([['files', {}]]) }, parts)
  if (!opened) return t.fail('the plugin is on')
  const { shelf, close } = opened
  const ref = 'aaaaaaaaaaaa'
  const session = await addSession(redis.client, ref)
  const { signal } = new AbortController()
  const about = { filename: 'a', contentType: 'image/png', sha256: '0'.repeat(64) }
  const file = { ref, quotaBytes, id: newId('file'), session, ...about, signal }
  const { id } = await shelf.keep(Buffer.from('x'), file)
  t.equal((await shelf.load(ref, id)).toString(), 'x')
  t.match(await metrics.text(), /redis_command_seconds_count\{script="file_commit"\} 1\n/)
  await close()
  t.equal(await openShelf({ plugins: new Map() }, parts), undefined, 'the plugin is off')
})

t.test(
  'Redis is lost while the gateway starts: the shelf opens, and serves when it is back',
  async (t) => {
    const server = await startRedis(t)
    const redis = await connectLink(t, server.socket)
    const store = diskStore(join(await tempDir(t), 'store'))
    await server.kill()
    await until(() => !redis.up)
    const parts = { redis, store, metrics: createMetrics('test'), log: { warn() {} } }
    const opened = await openShelf({ plugins: new Map([['files', {}]]) }, parts)
    if (!opened) return t.fail('the plugin is on')
    await server.restart()
    await until(() => redis.up)
    const ref = 'aaaaaaaaaaaa'
    const session = await addSession(redis.client, ref)
    const about = { filename: 'a', contentType: 'image/png', sha256: '0'.repeat(64) }
    const { signal } = new AbortController()
    const file = { ref, quotaBytes, id: newId('file'), session, ...about, signal }
    const { id } = await opened.shelf.keep(Buffer.from('x'), file)
    t.equal((await opened.shelf.load(ref, id)).toString(), 'x')
    await opened.close()
  },
)

t.test('a Redis that refuses the scripts ends the start', async (t) => {
  const server = await startRedis(t)
  const redis = await connectLink(t, server.socket)
  await redis.client.call('ACL', 'SETUSER', 'default', '-script')
  const store = diskStore(join(await tempDir(t), 'store'))
  const parts = { redis, store, metrics: createMetrics('test'), log: { warn() {} } }
  await t.rejects(openShelf({ plugins: new Map([['files', {}]]) }, parts), /NOPERM/)
})
