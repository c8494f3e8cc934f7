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
