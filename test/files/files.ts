import { mock } from 'node:test'
import t from 'tap'
import { uploadLeaseMs } from '../../src/files/files.ts'
import { newId } from '../../src/ids.ts'
import { newRef } from '../../src/accounts/api-key.ts'
import { keys } from '../../src/redis/keys.ts'
import {
  addFile,
  addSession,
  dueOf,
  fileRow,
  isForgotten,
  openFiles,
  quotaBytes,
  rowBytes,
  storageOf,
} from '../fixtures/file-rows.ts'

t.test('an upload is first a record, then a row, and counts its bytes', async (t) => {
  const { book, ref, redis, session } = await openFiles(t)
  const row = fileRow({ session, bytes: 700 })
  const { id } = row
  await book.begin(ref, row)
  t.strictSame(await dueOf(redis, ref), [`upload ${id}`])
  t.notOk(await isForgotten(redis, ref))
  await book.reserve(ref, { id, bytes: 1000, quotaBytes })
  t.strictSame(await storageOf(redis, ref), { used: 0, reserved: 1000 + rowBytes })
  await t.rejects(book.read(ref, id), { code: 'file_not_found' }, 'no row before its time')
  await book.commit(ref, row, { quotaBytes })
  t.strictSame(await storageOf(redis, ref), { used: 700, reserved: 0 })
  t.strictSame(await book.read(ref, id), row)
  t.strictSame(await dueOf(redis, ref), [`session ${session}`])
  const shown = await book.list(ref, { limit: 20, order: 'desc' })
  t.match(shown, { first_id: id, has_more: false, data: [{ session_id: session }] })
})

t.test('each step can be repeated, and counts once', async (t) => {
  const { book, ref, redis, session } = await openFiles(t)
  const row = fileRow({ session })
  const twice = async (ask: () => Promise<void>) => {
    await ask()
    await ask()
  }
  await twice(() => book.begin(ref, row))
  await twice(() => book.reserve(ref, { id: row.id, bytes: 1000, quotaBytes }))
  await book.begin(ref, row)
  t.strictSame(await storageOf(redis, ref), { used: 0, reserved: 1000 + rowBytes })
  await book.reserve(ref, { id: row.id, bytes: 10, quotaBytes })
  t.strictSame(await storageOf(redis, ref), { used: 0, reserved: 1000 + rowBytes }, 'never less')
  await twice(() => book.commit(ref, row, { quotaBytes }))
  await twice(() => book.abandon(ref, row.id))
  t.strictSame(await storageOf(redis, ref), { used: 1000, reserved: 0 })
  t.strictSame(await book.read(ref, row.id), row, 'what is committed is not abandoned')
})

t.test('a begin that finds no room leaves nothing, and may ask for less', async (t) => {
  const { book, ref, redis, session, store } = await openFiles(t)
  await addFile({ book, store, ref }, { session, bytes: 600 })
  const before = await redis.hgetall(keys.storage(ref))
  const most = { quotaBytes: 1000 + 2 * rowBytes }
  const row = fileRow({ session, bytes: 400 })
  const full = { code: 'storage_quota_exceeded' }
  await t.rejects(book.begin(ref, row, { bytes: 401, ...most }), full)
  t.strictSame(await redis.hgetall(keys.storage(ref)), before)
  t.strictSame(await dueOf(redis, ref), [`session ${session}`])
  await book.begin(ref, row, { bytes: 400, ...most })
  await book.begin(ref, row, { bytes: 400, ...most })
  t.strictSame(await storageOf(redis, ref), { used: 600, reserved: 400 + rowBytes })
  await t.rejects(book.begin(ref, fileRow({ session }), { bytes: 1, ...most }), full)
  await book.commit(ref, row, most)
  t.strictSame(await storageOf(redis, ref), { used: 1000, reserved: 0 })
  await redis.hset(keys.account(ref), 'closed_at', 1)
  const late = book.begin(ref, fileRow({ session }), { bytes: 1, quotaBytes })
  await t.rejects(late, full, 'a closed account has room for nothing')
})

t.test('a begin that is repeated after its lease has ended is lost', async (t) => {
  const { book, ref, redis, session } = await openFiles(t)
  const row = fileRow({ session })
  await book.begin(ref, row, { bytes: 1, quotaBytes })
  await redis.del(keys.due(ref))
  const again = book.begin(ref, row, { bytes: 1, quotaBytes })
  await t.rejects(again, { code: 'storage_unavailable' })
  t.strictSame(await storageOf(redis, ref), { used: 0, reserved: 1 + rowBytes })
})

t.test('a begin that comes late, after the row, neither counts nor removes the file', async (t) => {
  const { book, ref, redis, session, sweeper, store } = await openFiles(t)
  const row = await addFile({ book, store, ref }, { session })
  const record = `upload ${row.id}`
  const commit = async () => {
    await book.commit(ref, row, { quotaBytes: 0 })
    t.equal((await storageOf(redis, ref)).used, 1000)
    t.equal(await redis.hget(keys.storage(ref), 'rows'), `${rowBytes}`)
  }
  await book.begin(ref, row, { bytes: row.bytes, quotaBytes })
  await commit()
  t.strictSame(await storageOf(redis, ref), { used: 1000, reserved: 0 })
  t.strictSame(await dueOf(redis, ref), [`session ${session}`])
  await book.begin(ref, row, { bytes: row.bytes, quotaBytes })
  await redis.zrem(keys.due(ref), record)
  await commit()
  await book.abandon(ref, row.id)
  await book.begin(ref, row)
  await commit()
  t.ok((await dueOf(redis, ref)).includes(record))
  await redis.zadd(keys.due(ref), 1, record)
  await redis.zadd(keys.dueAccounts, 0, `0:${ref}`)
  await sweeper().sweep()
  t.strictSame(await storageOf(redis, ref), { used: 1000, reserved: 0 })
  t.strictSame(store.calls, [], 'the object stays')
  t.strictSame(await book.read(ref, row.id), row)
})

t.test('the quota counts used bytes, and those that parallel uploads have reserved', async (t) => {
  const { book, ref, redis, session, store } = await openFiles(t)
  await addFile({ book, store, ref }, { session, bytes: 600 })
  const most = { quotaBytes: 1000 + 3 * rowBytes }
  const [one, other] = [fileRow({ session, bytes: 300 }), fileRow({ session, bytes: 200 })]
  const full = { code: 'storage_quota_exceeded' }
  for (const row of [one, other]) await book.begin(ref, row)
  await book.reserve(ref, { id: one.id, bytes: 300, ...most })
  await t.rejects(book.reserve(ref, { id: other.id, bytes: 101, ...most }), full)
  await book.reserve(ref, { id: other.id, bytes: 100, ...most })
  await t.rejects(book.commit(ref, other, most), full, 'more than was reserved')
  await book.abandon(ref, one.id)
  const both = 800 + 2 * rowBytes
  await t.rejects(book.commit(ref, other, { quotaBytes: both - 1 }), full)
  await book.commit(ref, other, { quotaBytes: both })
  t.strictSame(await storageOf(redis, ref), { used: 800, reserved: 0 })
  const empty = fileRow({ session, bytes: 0 })
  await book.begin(ref, empty)
  await t.rejects(book.commit(ref, empty, { quotaBytes: both }), full, 'its row takes room')
  await book.commit(ref, empty, { quotaBytes: both + rowBytes })
  t.equal((await book.read(ref, empty.id)).bytes, 0)
  for (const { id } of [other, empty]) await book.remove(ref, id)
  t.equal(await redis.hget(keys.storage(ref), 'rows'), `${rowBytes}`)
})

t.test('before an upload is refused, the bytes of expired sessions are freed', async (t) => {
  const { book, ref, redis, session } = await openFiles(t)
  const gone = Array.from({ length: 600 }, () => newId('sess'))
  await redis.hset(keys.storage(ref), { sessions: 600 * 1500, ...byId(gone, 1500) })
  const row = fileRow({ session, bytes: quotaBytes - 10_000 })
  await book.begin(ref, row)
  await book.reserve(ref, { id: row.id, bytes: row.bytes, quotaBytes })
  await book.commit(ref, row, { quotaBytes })
  t.ok(Number(await redis.hget(keys.storage(ref), 'sessions')) <= 10_000)
  const [empty, kept] = [fileRow({ session, bytes: 0 }), newId('sess')]
  await redis.hset(keys.storage(ref), { sessions: 9000, ...byId([kept], 9000) })
  await book.begin(ref, empty)
  await book.commit(ref, empty, { quotaBytes })
})

const byId = (ids: readonly string[], bytes: number) =>
  Object.fromEntries(ids.map((id) => [id, bytes]))

t.test('a reservation becomes the row: its bytes count from the first one on', async (t) => {
  const { book, ref, redis, session } = await openFiles(t)
  const rows = [2000, 3000].map((bytes) => fileRow({ session, bytes, filename: 'ü'.repeat(127) }))
  const most = { quotaBytes: 5000 + 2 * rowBytes }
  for (const { id, bytes } of rows) {
    await book.begin(ref, { id, session })
    await book.renew(ref, id)
    const asked = book.reserve(ref, { id, bytes: bytes + 1, quotaBytes: bytes + rowBytes })
    await t.rejects(asked, { code: 'storage_quota_exceeded' })
    await book.reserve(ref, { id, bytes, ...most })
  }
  for (const row of rows) await book.commit(ref, row, most)
  const stored = await redis.hmget(keys.storage(ref), 'used', 'rows', 'reserved')
  t.strictSame(stored.map(Number), [5000, 2 * rowBytes, 0])
})

t.test('an upload for an unknown session, or one deleted meanwhile, is refused', async (t) => {
  const { book, ref, redis, session } = await openFiles(t)
  const none = { code: 'session_not_found' }
  for (const [whose, which] of [
    [ref, newId('sess')],
    [ref, ''],
    [ref, `${session}:files`],
    [newRef(), session],
  ] as const) {
    await t.rejects(book.begin(whose, fileRow({ session: which })), none)
  }
  const row = fileRow({ session })
  await book.begin(ref, row)
  await book.reserve(ref, { id: row.id, bytes: row.bytes, quotaBytes })
  await redis.del(keys.session(ref, session))
  await t.rejects(book.commit(ref, row, { quotaBytes }), none)
  t.strictSame(
    await storageOf(redis, ref),
    { used: 0, reserved: 1000 + rowBytes },
    'until the object is gone',
  )
  await book.abandon(ref, row.id)
  t.strictSame(await storageOf(redis, ref), { used: 0, reserved: 0 })
  t.strictSame(await dueOf(redis, ref), [])
  t.equal(await redis.exists(keys.file(ref, row.id), keys.files(ref)), 0)
})

t.test('a lease is renewed with each reservation, and by itself', async (t) => {
  const { book, ref, redis, session } = await openFiles(t)
  const row = fileRow({ session })
  const member = `upload ${row.id}`
  const ends = async () => Number(await redis.zscore(keys.due(ref), member))
  await book.begin(ref, row)
  t.ok(Math.abs((await ends()) - Date.now() - uploadLeaseMs) < 5000)
  for (const renew of [
    () => book.renew(ref, row.id),
    () => book.reserve(ref, { id: row.id, bytes: 1, quotaBytes }),
  ]) {
    await redis.zadd(keys.due(ref), 1, member)
    await renew()
    t.ok((await ends()) > Date.now())
  }
})

t.test('without its record an upload cannot continue', async (t) => {
  const { book, ref, session } = await openFiles(t)
  const row = fileRow({ session })
  const late = { code: 'storage_unavailable' }
  await t.rejects(book.reserve(ref, { id: row.id, bytes: 1, quotaBytes }), late)
  await t.rejects(book.renew(ref, row.id), late)
  await t.rejects(book.commit(ref, row, { quotaBytes }), late)
  await t.rejects(book.read(ref, row.id), { code: 'file_not_found' })
})

t.test('an expiry is announced for its minute, whatever the clocks say', async (t) => {
  const { book, ref, redis, session, store } = await openFiles(t)
  const expiresAt = 2_000_000_040
  await addFile({ book, store, ref }, { session, expiresAt })
  t.equal(
    await redis.zscore(keys.dueAccounts, `${Math.floor(expiresAt / 60)}:${ref}`),
    '2000000040000',
  )
  const past = await addFile({ book, store, ref }, { session, expiresAt: 1 })
  t.match(await dueOf(redis, ref), [`expiry ${past.id}`, /^session /, /^expiry /])
  t.notOk(await isForgotten(redis, ref))
})

t.test('the name in a row can be any text', async (t) => {
  const { book, ref, session, store } = await openFiles(t)
  for (const filename of ['', ' ', '\0\r\n', '$-1', '-', `${'名'.repeat(85)}`]) {
    const row = await addFile({ book, store, ref }, { session, filename })
    t.equal((await book.read(ref, row.id)).filename, filename)
  }
})

t.test('other accounts are not affected', async (t) => {
  const { book, ref, redis, session, store } = await openFiles(t)
  const stranger = newRef()
  const own = await addSession(redis, stranger)
  const row = await addFile({ book, store, ref }, { session })
  await addFile({ book, store, ref: stranger }, { session: own })
  await t.rejects(book.read(stranger, row.id), { code: 'file_not_found' })
  await t.rejects(book.remove(stranger, row.id), { code: 'file_not_found' })
  await t.rejects(book.list(stranger, { limit: 1, order: 'asc' }, session), {
    code: 'session_not_found',
  })
  t.strictSame(await storageOf(redis, stranger), { used: 1000, reserved: 0 })
})

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

t.test('if the removal of a session stops half-way, its files are swept soon', async (t) => {
  const all = await openFiles(t)
  const { book, ref, redis, session, store, sweeper } = all
  await addFile(all, { session })
  await sweeper().sweep()
  await book.expectRemoval(ref, session)
  t.equal(await sweeper().sweep(), 1, 'the session is still there')
  t.match(await dueOf(redis, ref), [`session ${session}`])
  await book.expectRemoval(ref, session)
  await redis.del(keys.session(ref, session))
  await sweeper().sweep()
  t.strictSame(await storageOf(redis, ref), { used: 0, reserved: 0 })
  t.equal(store.objects.size, 0)
  t.strictSame(await dueOf(redis, ref), [])
})

t.test('a session without files is not expected to be removed', async (t) => {
  const { book, ref, redis, session } = await openFiles(t)
  await book.expectRemoval(ref, session)
  await book.expectRemoval(ref, 'no id')
  t.strictSame(await dueOf(redis, ref), [])
  t.equal(await redis.exists(keys.dueAccounts), 0)
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
