// src/store/drivers.ts: each driver is in the schema by its name, and found again by it; the configured store has a
// measured time for each call, also for one that fails.

import { join } from 'node:path'
import t from 'tap'
import type { z } from '../../src/config/schema.ts'
import { createMetrics } from '../../src/metrics.ts'
import { driverOf, drivers, openStore, storeKeys } from '../../src/store/drivers.ts'
import { uploadMemoryBytes } from '../../src/store/drivers.ts'
import type { S3Config } from '../../src/store/s3-driver.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

t.test('each has a block of its name, with its sentence', (t) => {
  const keys: Readonly<Record<string, z.ZodType>> = storeKeys()
  t.strictSame(Object.keys(keys), Object.keys(drivers))
  for (const [name, block] of Object.entries(keys)) t.match(block.description, /^Keeps .*\.$/, name)
  t.end()
})

t.test('a configuration leads to its driver, with what the driver made of its block', (t) => {
  const settings = { path: '/files' }
  t.same(driverOf({ disk: settings }), { driver: drivers.disk, settings })
  t.throws(() => driverOf(Object({ tape: {} })), /there is no store tape/)
  t.end()
})

t.test('every call is measured by its name, a failing one too', async (t) => {
  const metrics = createMetrics('0')
  const store = await openStore({ disk: { path: join(await tempDir(t), 'x') } }, { metrics })
  await store.put('a', Buffer.from('x'))
  ;(await store.read('a')).destroy()
  await store.get('a')
  await t.rejects(store.get('b'), { name: 'NoSuchObject' })
  await store.list('')
  await store.unfinished('')
  await store.remove('a')
  await store.abandon('a')
  await store.close()
  const text = await metrics.text()
  const counts = [...text.matchAll(/^tollgate_store_seconds_count\{op="(\w+)"\} (\d+)$/gm)]
  t.same(Object.fromEntries(counts.map(([, op, count]) => [op, count])), {
    put: '1',
    read: '1',
    get: '2',
    list: '1',
    unfinished: '1',
    remove: '1',
    abandon: '1',
  })
  t.equal(store.presign, undefined, 'a folder has no URLs')
})

t.test('an S3 store can sign URLs, without asking the server', async (t) => {
  const metrics = createMetrics('0')
  const place = { bucket: 'files', prefix: 'p/', region: 'eu-central-1', pathStyle: false }
  const credentials = { accessKeyId: 'AK', secretAccessKey: 'SK' }
  const config = { s3: { ...place, credentials, partBytes: 8 * 2 ** 20, concurrency: 3 } }
  const store = await openStore(config, { metrics })
  t.teardown(() => store.close())
  const options = { expiresS: 60, contentType: 'text/plain', disposition: 'inline' }
  const url = new URL((await store.presign?.('a/b', options)) ?? '')
  t.equal(url.host, 'files.s3.eu-central-1.amazonaws.com')
  t.equal(url.pathname, '/p/a/b')
  t.equal(url.searchParams.get('X-Amz-Expires'), '60')
  t.match(await metrics.text(), /store_seconds_count\{op="presign"\} 1/)
})

t.test('the memory of an upload is that of its parts and of its socket', async (t) => {
  const s3 = { partBytes: 8 * 2 ** 20, concurrency: 3 } as S3Config
  t.equal(uploadMemoryBytes({ s3 }) - uploadMemoryBytes({ disk: { path: '' } }), 3 * 8 * 2 ** 20)
})
