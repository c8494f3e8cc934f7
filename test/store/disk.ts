// src/store/disk.ts: what every store promises, inside its folder only, durable and without leftovers.

import { existsSync } from 'node:fs'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { diskStore } from '../../src/store/disk.ts'
import { storeSuite } from '../fixtures/store-suite.ts'
import { contentOf } from '../fixtures/content.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

t.test('on the disk', async (t) => {
  await storeSuite(t, {
    configOf: async (t) => ({ disk: { path: join(await tempDir(t), 'made/later') } }),
    partBytes: 2 ** 20,
  })
})

t.test('only the objects are in the folder, also after failures', async (t) => {
  const folder = await tempDir(t)
  await mkdir(join(folder, 'store'))
  await writeFile(join(folder, 'secret'), 'secret')
  const store = diskStore(join(folder, 'store'))
  await t.rejects(store.remove('../secret'), TypeError)
  t.ok(existsSync(join(folder, 'secret')))
  await store.put('a', Buffer.from('x'))
  const before = () => {
    throw new Error('cut')
  }
  await t.rejects(store.put('a', contentOf(1, { before })), { message: 'cut' })
  t.strictSame((await readdir(join(folder, 'store'), { recursive: true })).sort(), ['.tmp', 'a'])
})

t.test('an error of the disk is a failure of the store, with its cause', async (t) => {
  const folder = await tempDir(t)
  await writeFile(join(folder, 'file'), '')
  const store = diskStore(join(folder, 'file'))
  const unavailable = { code: 'storage_unavailable' }
  await t.rejects(store.put('a', Buffer.from('x')), { ...unavailable, cause: { code: 'ENOTDIR' } })
  await t.rejects(store.put('a', contentOf(5)), unavailable)
  const other = diskStore(folder)
  await other.put('a/b', Buffer.from('x'))
  await t.rejects(other.put('a', Buffer.from('x')), { ...unavailable, cause: { code: 'EISDIR' } })
  await t.rejects(other.put('a/b/c', contentOf(5)), { ...unavailable, cause: { code: 'EEXIST' } })
  t.strictSame(await other.unfinished(''), [])
  await t.rejects(other.read('a'), { name: 'NoSuchObject' })
})
