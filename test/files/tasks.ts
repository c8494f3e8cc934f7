import t from 'tap'
import { objectName } from '../../src/files/file-row.ts'
import { createTasks } from '../../src/files/tasks.ts'
import { keys } from '../../src/redis/redis.ts'
import { addFile, dueOf, fileRow, openFiles, storageOf } from '../fixtures/file-rows.ts'

type Opened = Awaited<ReturnType<typeof openFiles>>

function tasksOf({ redis, scripts, store, problems }: Opened, { lookAgainMs = 0 } = {}) {
  return createTasks({
    redis,
    scripts,
    store,
    storeMs: 10_000,
    lookAgainMs,
    signal: new AbortController().signal,
    onProblem: (problem) => void problems.push(problem),
  })
}

const windowOf = (text: string | null) =>
  (text ?? '').split(' ').map(Number) as [number, number, number, number]

t.test('an expired file is reported as such for a week, and its bytes are free', async (t) => {
  const all = await openFiles(t)
  const { book, ref, redis, session } = all
  const { id } = await addFile(all, { session, expiresAt: 1 })
  t.ok(await tasksOf(all)(ref, `expiry ${id}`))
  t.strictSame(await storageOf(redis, ref), { used: 0, reserved: 0 })
  await t.rejects(book.read(ref, id), { code: 'file_expired' })
  t.strictSame(await redis.hgetall(keys.file(ref, id)), { id, expires_at: '1', session })
  const [turn, kept, since, before] = windowOf(await redis.hget(keys.storage(ref), 'told'))
  t.ok(turn > Date.now() + 6 * 86_400_000, 'that it is told counts as long')
  t.strictSame([kept, since, before], [7 * 86_400_000, 320, 0])
  const week = await redis.ttl(keys.file(ref, id))
  t.ok(week > 7 * 86_400 - 60 && week <= 7 * 86_400)
  t.equal(await redis.exists(keys.files(ref), keys.sessionFiles(ref, session)), 0)
  t.strictSame(await dueOf(redis, ref), [`object ${id} 0`, `session ${session}`])
  t.ok(await tasksOf(all)(ref, `expiry ${id}`), 'again')
  t.strictSame(await storageOf(redis, ref), { used: 0, reserved: 0 })
  await redis.del(keys.session(ref, session))
  await t.rejects(book.read(ref, id), { code: 'file_not_found' })
})

t.test('a file that has not expired, never does, or was deleted, stays as it is', async (t) => {
  const all = await openFiles(t)
  const { ref, redis, session, book } = all
  const expiresAt = Math.floor(Date.now() / 1000) + 1000
  const later = await addFile(all, { session, expiresAt })
  const never = await addFile(all, { session })
  const gone = await addFile(all, { session })
  await book.remove(ref, gone.id)
  await redis.zadd(keys.due(ref), 0, `expiry ${later.id}`, 0, `expiry ${never.id}`)
  for (const { id } of [later, never, gone]) t.ok(await tasksOf(all)(ref, `expiry ${id}`))
  t.strictSame(await dueOf(redis, ref), [`expiry ${later.id}`, `session ${session}`])
  t.equal(await redis.zscore(keys.due(ref), `expiry ${later.id}`), `${expiresAt}000`)
  t.strictSame(await storageOf(redis, ref), { used: 2000, reserved: 0 })
  t.strictSame(await book.readMany(ref, [later.id, never.id]), [later, never])
})

t.test('a session that still exists is looked at again when it may be gone', async (t) => {
  const all = await openFiles(t)
  const { ref, redis, session } = all
  await addFile(all, { session })
  const next = async () =>
    Number(await redis.zscore(keys.due(ref), `session ${session}`)) - Date.now()
  t.ok(Math.abs((await next()) - 86_400_000) < 10_000, 'in a day')
  for (const [ttl, expected] of [
    [100, 100_000],
    [1e6, 86_400_000],
  ] as const) {
    await redis.expire(keys.session(ref, session), ttl)
    t.ok(await tasksOf(all)(ref, `session ${session}`))
    t.ok(Math.abs((await next()) - expected) < 10_000, `${expected}`)
  }
})

t.test('a session that expires is looked at then', async (t) => {
  const all = await openFiles(t)
  const { ref, redis, session } = all
  await redis.expire(keys.session(ref, session), 500)
  await addFile(all, { session })
  const next = Number(await redis.zscore(keys.due(ref), `session ${session}`))
  t.ok(Math.abs(next - Date.now() - 500_000) < 60_000)
})

t.test('a session without files is no longer looked at', async (t) => {
  const all = await openFiles(t)
  const { book, ref, redis, session } = all
  const { id } = await addFile(all, { session })
  await book.remove(ref, id)
  t.ok(await tasksOf(all)(ref, `session ${session}`))
  t.strictSame(await dueOf(redis, ref), [])
})

t.test('the files of a deleted session are removed', async (t) => {
  const all = await openFiles(t)
  const { ref, redis, session, store } = all
  const { id } = await addFile(all, { session })
  await redis.del(keys.session(ref, session))
  t.ok(await tasksOf(all)(ref, `session ${session}`))
  t.strictSame(await storageOf(redis, ref), { used: 0, reserved: 0 })
  t.equal(store.calls.length, 0, 'the objects are for another time')
  t.strictSame(await dueOf(redis, ref), [`object ${id} 0`])
  t.ok(await tasksOf(all)(ref, `object ${id} 0`))
  t.equal(store.objects.size, 0)
  t.strictSame(await dueOf(redis, ref), [])
})

t.test('an object that has a row is never taken for abandoned', async (t) => {
  const all = await openFiles(t)
  const { ref, redis, session, store, book } = all
  const row = await addFile(all, { session })
  await redis.zadd(keys.due(ref), 0, `abandoned ${row.id} 1`)
  t.ok(await tasksOf(all)(ref, `abandoned ${row.id} 1`))
  t.ok(store.objects.has(objectName(ref, row.id)))
  t.strictSame(await book.read(ref, row.id), row)
  t.strictSame(await dueOf(redis, ref), [`session ${session}`])
})

t.test('an object that a dead upload puts after it was swept is found, too', async (t) => {
  const all = await openFiles(t)
  const { ref, redis, session, store, book } = all
  const row = fileRow({ session })
  await book.begin(ref, row)
  await redis.zadd(keys.due(ref), 0, `abandoned ${row.id} 1`)
  await redis.zrem(keys.due(ref), `upload ${row.id}`)
  const again = tasksOf(all, { lookAgainMs: 3_600_000 })
  t.ok(await again(ref, `abandoned ${row.id} 1`))
  store.objects.add(objectName(ref, row.id))
  const member = `object ${row.id} 0`
  const due = Number(await redis.zscore(keys.due(ref), member))
  t.ok(Math.abs(due - Date.now() - 3_600_000) < 60_000)
  t.ok(await again(ref, `abandoned ${row.id} 1`), 'by another sweeper, late')
  t.ok(await tasksOf(all)(ref, member))
  t.equal(store.objects.size, 0)
  t.strictSame(await dueOf(redis, ref), [])
})

t.test('unknown tasks are forgotten', async (t) => {
  const all = await openFiles(t)
  const { ref, redis } = all
  await redis.zadd(keys.due(ref), 0, 'x y')
  t.ok(await tasksOf(all)(ref, 'x y'))
  t.strictSame(await dueOf(redis, ref), [])
})

t.test('after enough failures, the store is not asked again', async (t) => {
  const all = await openFiles(t)
  const { ref, session, store, problems } = all
  store.failures = 100
  const work = tasksOf(all)
  for (let count = 0; count < 20; count++) {
    t.notOk(await work(ref, `object ${fileRow({ session }).id} 1`))
  }
  t.equal(store.calls.length, 16)
  t.equal(problems.length, 16)
  t.ok(await work(ref, `session ${session}`), 'what needs none goes on')
})
