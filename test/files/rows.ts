import { mock } from 'node:test'
import t from 'tap'
import { newId } from '../../src/ids.ts'
import { keys } from '../../src/redis/redis.ts'
import { addFile, addSession, openFiles } from '../fixtures/file-rows.ts'

const newest = { limit: 20, order: 'desc' } as const
const none = { code: 'file_not_found' }

t.test('an invalid id, or one without a row, is no file', async (t) => {
  const { book, ref } = await openFiles(t)
  for (const id of [newId('file'), newId('msg'), '', '*', 'file_', `${newId('file')}:x`]) {
    await t.rejects(book.read(ref, id), none)
    await t.rejects(book.remove(ref, id), none)
    t.strictSame(await book.readMany(ref, [id]), [undefined])
  }
  t.strictSame(await book.readMany(ref, []), [])
})

t.test('a file expires in its second, whether or not a sweeper has come', async (t) => {
  const { book, ref, session, store } = await openFiles(t)
  const expiresAt = Math.floor(Date.now() / 1000) + 3600
  const file = await addFile({ book, store, ref }, { session, expiresAt })
  const { id } = file
  mock.timers.enable({ apis: ['Date'], now: expiresAt * 1000 - 1 })
  t.teardown(() => mock.timers.reset())
  t.strictSame(await book.read(ref, id), file, 'not a moment too early')
  t.strictSame(await book.readMany(ref, [id]), [file])
  t.match((await book.list(ref, newest)).data, [{ id, expires_at: expiresAt }])
  mock.timers.tick(1)
  await t.rejects(book.read(ref, id), { code: 'file_expired' }, 'not a moment too long')
  await t.rejects(book.remove(ref, id), { code: 'file_expired' })
  t.strictSame(await book.readMany(ref, [id]), [undefined])
  t.strictSame((await book.list(ref, newest)).data, [])
})

t.test('files of a deleted session are gone at once', async (t) => {
  const { book, ref, redis, session, store } = await openFiles(t)
  const files = { book, store, ref }
  const { id } = await addFile(files, { session })
  const expired = await addFile(files, { session, expiresAt: 1 })
  const other = await addFile(files, { session: await addSession(redis, ref) })
  await redis.del(keys.session(ref, session))
  await t.rejects(book.read(ref, id), none)
  await t.rejects(book.read(ref, expired.id), none)
  await t.rejects(book.remove(ref, id), none)
  await t.rejects(book.list(ref, newest, session), { code: 'session_not_found' })
  const found = await book.readMany(ref, [id, other.id, expired.id])
  t.strictSame(found, [undefined, other, undefined])
  t.strictSame(
    (await book.list(ref, newest)).data.map((file) => file.id),
    [other.id],
  )
})

t.test('lists are in order of creation, of all files or those of a session', async (t) => {
  const { book, ref, redis, session, store } = await openFiles(t)
  const other = await addSession(redis, ref)
  const ids: string[] = []
  for (let count = 0; count < 7; count++) {
    const row = await addFile({ book, store, ref }, { session: count % 2 ? other : session })
    ids.push(row.id)
  }
  const idsOf = async (...words: Parameters<typeof book.list>) =>
    (await book.list(...words)).data.map(({ id }) => id)
  t.strictSame(await idsOf(ref, newest), ids.toReversed())
  t.strictSame(
    await idsOf(ref, { limit: 9, order: 'asc' }, other),
    ids.filter((_id, at) => at % 2),
  )
  const page = await book.list(ref, { limit: 2, order: 'desc', after: ids[5] ?? '' })
  t.match(page, { object: 'list', first_id: ids[4], last_id: ids[3], has_more: true })
  t.strictSame(await idsOf(ref, { limit: 2, order: 'asc', before: ids[3] ?? '' }), [ids[1], ids[2]])
  t.strictSame(await idsOf(ref, { limit: 2, order: 'asc', before: ids[3] ?? '' }, session), [
    ids[0],
    ids[2],
  ])
  await t.rejects(book.list(ref, newest, 'sess_x'), { code: 'session_not_found' })
})

t.test('broken rows are skipped, rows that are gone are forgotten', async (t) => {
  const { book, ref, redis, session, store } = await openFiles(t)
  const add = () => addFile({ book, store, ref }, { session })
  const [good, broken, string, gone] = [await add(), await add(), await add(), await add()]
  await redis.hset(keys.file(ref, broken.id), 'bytes', 'many')
  await redis.set(keys.file(ref, string.id), 'none of ours')
  await redis.del(keys.file(ref, gone.id))
  await redis.zadd(keys.files(ref), 0, 'file_*', 0, '')
  for (const list of [() => book.list(ref, newest), () => book.list(ref, newest, session)]) {
    t.strictSame(
      (await list()).data.map(({ id }) => id),
      [good.id],
    )
  }
  t.strictSame(await redis.zrange(keys.sessionFiles(ref, session), '0', '-1'), [
    good.id,
    broken.id,
    string.id,
  ])
  for (const { id } of [broken, string, gone]) await t.rejects(book.read(ref, id), none)
  t.strictSame(await book.readMany(ref, [broken.id, string.id, gone.id, good.id]), [
    undefined,
    undefined,
    undefined,
    good,
  ])
})

t.test('without Redis the answer is ledger_unavailable', async (t) => {
  const { book, ref, session, server } = await openFiles(t)
  await server.stop()
  const away = { code: 'ledger_unavailable' }
  await t.rejects(book.read(ref, newId('file')), away)
  await t.rejects(book.readMany(ref, [newId('file')]), away)
  await t.rejects(book.list(ref, newest), away)
  await t.rejects(book.list(ref, newest, session), away)
})
