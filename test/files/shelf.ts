// src/files/shelf.ts: row and object come together and go together, whatever fails in between.

import { hash } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { GatewayError } from '../../src/errors.ts'
import { objectName } from '../../src/files/file-row.ts'
import { Shelf } from '../../src/files/shelf.ts'
import type { KeptFile } from '../../src/files/shelf.ts'
import { newId } from '../../src/ids.ts'
import { keys } from '../../src/redis/keys.ts'
import { diskStore } from '../../src/store/disk.ts'
import type { ObjectStore } from '../../src/store/store.ts'
import { dueOf, isForgotten, openFiles, quotaBytes, rowBytes } from '../fixtures/file-rows.ts'
import { tempDir } from '../fixtures/temp-dir.ts'
import { until } from '../fixtures/until.ts'

const content = Buffer.from('what is kept')

async function openShelf(t: Test, broken: Partial<ObjectStore> = {}) {
  const opened = await openFiles(t)
  const store = { ...diskStore(join(await tempDir(t), 'store')), ...broken }
  const { book, ref, session, redis } = opened
  const file = (fields: Partial<KeptFile> = {}): KeptFile => ({
    ref,
    quotaBytes,
    id: newId('file'),
    session,
    filename: 'a.png',
    contentType: 'image/png',
    sha256: hash('sha256', content),
    signal: new AbortController().signal,
    ...fields,
  })
  const left = async () => ({
    objects: await store.list('files/'),
    unfinished: await store.unfinished('files/'),
    storage: await redis.hgetall(keys.storage(ref)),
  })
  return { ...opened, store, file, left, shelf: new Shelf(book, store) }
}

t.test('a kept file is found, with its row and its bytes', async (t) => {
  const { shelf, file, ref, book } = await openShelf(t)
  const row = await shelf.keep(content, file())
  t.strictSame(await book.read(ref, row.id), row)
  t.match(row, { bytes: content.length, purpose: 'vision', expiresAt: null })
  t.strictSame(await shelf.load(ref, row.id), content)
  const part = await shelf.open(ref, row.id, { start: 5, end: 6 })
  t.equal(Buffer.concat(await part.toArray()).toString(), 'is')
})

t.test('a store that fails leaves neither row nor reservation', async (t) => {
  const put = () => Promise.reject(new GatewayError('storage_unavailable'))
  const { shelf, file, left, redis, ref } = await openShelf(t, { put })
  await t.rejects(shelf.keep(content, file()), { code: 'storage_unavailable' })
  t.match(await left(), { objects: [], unfinished: [] })
  t.equal(Number((await redis.hget(keys.storage(ref), 'reserved')) ?? 0), 0)
})

t.test('a refused upload does not wait for a store that hangs', async (t) => {
  const put = () => Promise.reject(new GatewayError('storage_unavailable'))
  const hanging = Promise.withResolvers<void>()
  const { shelf, file, left } = await openShelf(t, { put, abandon: () => hanging.promise })
  await t.rejects(shelf.keep(content, file()), { code: 'storage_unavailable' })
  t.match(await left(), { storage: { reserved: String(content.length + rowBytes) } }, 'for now')
  hanging.resolve()
  await until(async () => (await left()).storage.reserved === '0')
})

t.test('objects that a store makes after their put was cut are looked for later', async (t) => {
  for (const code of ['storage_unavailable', 'server_draining'] as const) {
    const disk = diskStore(join(await tempDir(t), 'store'))
    const put = () => Promise.reject(new GatewayError(code))
    const { shelf, file, sweeper, redis, ref } = await openShelf(t, { ...disk, put })
    const kept = file()
    await t.rejects(shelf.keep(content, kept), { code })
    await disk.put(objectName(ref, kept.id), content)
    t.strictSame(await dueOf(redis, ref), [`object ${kept.id} 0`])
    t.notOk(await isForgotten(redis, ref))
    await redis.zadd(keys.due(ref), '0', `object ${kept.id} 0`)
    const [account = ''] = await redis.zrange(keys.dueAccounts, '0', '-1')
    await redis.zadd(keys.dueAccounts, '0', account)
    await sweeper({ store: disk }).sweep()
    t.strictSame(await disk.list('files/'), [], code)
    t.strictSame(await dueOf(redis, ref), [])
  }
})

t.test('if the row is refused, its object is removed', async (t) => {
  const { shelf, file, left, redis, ref, session } = await openShelf(t)
  await t.rejects(shelf.keep(content, file({ quotaBytes: 5 })), { code: 'storage_quota_exceeded' })
  await t.rejects(shelf.keep(content, file({ session: newId('sess') })), {
    code: 'session_not_found',
  })
  await redis.del(keys.session(ref, session))
  await t.rejects(shelf.keep(content, file()), { code: 'session_not_found' })
  t.match(await left(), { objects: [], unfinished: [] })
})

t.test('if it is unknown whether the row exists, its object stays', async (t) => {
  const { book, shelf, file, ref, store } = await openShelf(t)
  const commit = book.commit.bind(book)
  book.commit = async (...words) => {
    await commit(...words)
    throw new GatewayError('ledger_unavailable')
  }
  const kept = file()
  await t.rejects(shelf.keep(content, kept), { code: 'ledger_unavailable' })
  t.match(await book.read(ref, kept.id), { bytes: content.length })
  t.strictSame(await store.list('files/'), [objectName(ref, kept.id)])
})

t.test('an upload that was taken for dead ends, also while its store is slow', async (t) => {
  let lose = async () => {}
  const put: ObjectStore['put'] = async (_name, _content, { signal } = {}) => {
    await lose()
    if (!signal?.aborted) await once(signal ?? new EventTarget(), 'abort')
    signal?.throwIfAborted()
  }
  const { book, store, file, redis, ref, left } = await openShelf(t, { put })
  lose = async () => void (await redis.del(keys.due(ref)))
  const shelf = new Shelf(book, store, 1)
  await t.rejects(shelf.keep(content, file()), { code: 'storage_unavailable' })
  t.match(await left(), { objects: [], unfinished: [] })
})

t.test('a row without an object is no file', async (t) => {
  const { shelf, file, ref, store } = await openShelf(t)
  const { id } = await shelf.keep(content, file())
  await store.remove(objectName(ref, id))
  await t.rejects(shelf.open(ref, id), { code: 'file_not_found' })
  await t.rejects(shelf.load(ref, id), { code: 'file_not_found' })
})
