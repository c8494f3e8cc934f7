// src/store/disk.ts: what every store promises, inside its folder only, durable and without leftovers.

import { existsSync } from 'node:fs'
import { mkdir, readdir, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { DiskRoom, diskStore } from '../../src/store/disk.ts'
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

t.test('a disk with less free space than the reserve has no room, one with more has', async (t) => {
  const folder = await tempDir(t)
  const { bavail, bsize } = await statfs(folder)
  const free = bavail * bsize
  await t.rejects(new DiskRoom(folder, 2 * free).check() ?? Promise.resolve(), {
    code: 'storage_unavailable',
    cause: { message: /bytes are free/ },
  })
  const room = new DiskRoom(folder, free / 2)
  await room.check()
  t.equal(room.check(), undefined, 'it is not asked again at once')
})

t.test('a full disk is checked again each time', async (t) => {
  const room = new DiskRoom(await tempDir(t), Number.MAX_SAFE_INTEGER)
  for (let i = 0; i < 2; i++) {
    await t.rejects(room.check() ?? Promise.resolve(), { code: 'storage_unavailable' })
  }
})

t.test('without a reserve nothing is checked, and a missing folder is not full', async (t) => {
  t.equal(new DiskRoom('/', 0).check(), undefined)
  await new DiskRoom(join(await tempDir(t), 'none'), 1).check()
})
