import { mock } from 'node:test'
import t from 'tap'
import { objectName } from '../../src/files/file-row.ts'
import { keys } from '../../src/redis/keys.ts'
import {
  addFile,
  addSession,
  dueOf,
  isForgotten,
  openFiles,
  storageOf,
} from '../fixtures/file-rows.ts'
import { until } from '../fixtures/until.ts'

t.test('a removed file is gone with its object, its bytes and its queue', async (t) => {
  const { book, ref, redis, session, store } = await openFiles(t)
  const files = { book, store, ref }
  const stays = await addFile(files, { session })
  const goes = await addFile(files, { session, bytes: 5, expiresAt: 2_000_000_000 })
  await book.remove(ref, goes.id)
  await t.rejects(book.read(ref, goes.id), { code: 'file_not_found' })
  await t.rejects(book.remove(ref, goes.id), { code: 'file_not_found' })
  t.strictSame([...store.objects], [objectName(ref, stays.id)])
  t.strictSame(await storageOf(redis, ref), { used: 1000, reserved: 0 })
  t.strictSame(await dueOf(redis, ref), [`session ${session}`])
  t.strictSame(await redis.zrange(keys.files(ref), '0', '-1'), [stays.id])
  t.strictSame(await redis.zrange(keys.sessionFiles(ref, session), '0', '-1'), [stays.id])
})

t.test('when several calls remove it, only one does', async (t) => {
  const { book, ref, redis, session, store } = await openFiles(t)
  const { id } = await addFile({ book, store, ref }, { session })
  const all = await Promise.allSettled(Array.from({ length: 10 }, () => book.remove(ref, id)))
  t.equal(all.filter(({ status }) => status === 'fulfilled').length, 1)
  t.strictSame(await storageOf(redis, ref), { used: 0, reserved: 0 })
})

t.test('what the store refuses stays queued, and the caller gets no error', async (t) => {
  const { book, ref, redis, session, store } = await openFiles(t)
  const { id } = await addFile({ book, store, ref }, { session })
  store.failures = 1
  await book.remove(ref, id)
  t.strictSame(await storageOf(redis, ref), { used: 0, reserved: 0 })
  t.equal(store.objects.size, 1)
  t.strictSame(await dueOf(redis, ref), [`object ${id} 0`, `session ${session}`])
  t.notOk(await isForgotten(redis, ref))
})

t.test('a store that hangs is waited for two seconds', async (t) => {
  const { book, ref, redis, session, store } = await openFiles(t, { retryMs: 30_000 })
  const { id } = await addFile({ book, store, ref }, { session })
  const { promise: gate, resolve: release } = Promise.withResolvers<void>()
  store.gate = gate
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  let isRemoved = false
  const removing = book.remove(ref, id).then(() => (isRemoved = true))
  await until(() => store.calls.length > 0)
  mock.timers.tick(1999)
  await new Promise(setImmediate)
  t.notOk(isRemoved)
  mock.timers.tick(1)
  await removing
  t.strictSame(await storageOf(redis, ref), { used: 0, reserved: 0 })
  const due = Number(await redis.zscore(keys.due(ref), `object ${id} 0`))
  t.ok(Math.abs(due - Date.now() - 30_000) < 10_000, 'a sweeper looks later')
  release()
})

t.test('all files of a session are removed, however many, and no others', async (t) => {
  const { book, ref, redis, session, store, sweeper } = await openFiles(t)
  const files = { book, store, ref }
  const other = await addFile(files, { session: await addSession(redis, ref) })
  await Promise.all(Array.from({ length: 230 }, () => addFile(files, { session })))
  await redis.zadd(keys.sessionFiles(ref, session), 0, 'file_of_nobody')
  await redis.del(keys.session(ref, session))
  store.failures = 1
  await book.removeSession(ref, session)
  t.strictSame(await storageOf(redis, ref), { used: 1000, reserved: 0 })
  t.equal(await redis.exists(keys.sessionFiles(ref, session)), 0)
  t.strictSame(await redis.zrange(keys.files(ref), '0', '-1'), [other.id])
  t.notOk((await dueOf(redis, ref)).includes(`session ${session}`))
  await sweeper().sweep()
  t.strictSame([...store.objects], [objectName(ref, other.id)])
  t.strictSame(await dueOf(redis, ref), [`session ${other.session}`])
  await book.removeSession(ref, 'none')
})
