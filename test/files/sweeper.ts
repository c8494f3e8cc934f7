import t from 'tap'
import { objectName } from '../../src/files/file-row.ts'
import { newRef } from '../../src/accounts/api-key.ts'
import { keys } from '../../src/redis/keys.ts'
import {
  addFile,
  addSession,
  dueOf,
  fileRow,
  isForgotten,
  openFiles,
  partsOn,
  quotaBytes,
  rowBytes,
  storageOf,
} from '../fixtures/file-rows.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { until } from '../fixtures/until.ts'
import { createTasks } from '../../src/files/sweeper.ts'

t.test('without tasks there is no work, and nothing is left behind', async (t) => {
  const { redis, ref, sweeper } = await openFiles(t)
  t.equal(await sweeper().sweep(), 0)
  await redis.zadd(keys.dueAccounts, 60_000, `1:${ref}`, 0, 'none of ours', 0, '1:../x')
  t.equal(await sweeper().sweep(), 0)
  t.equal(await redis.exists(keys.dueAccounts), 0)
})

t.test('the remains of a dead upload are swept when its lease ends, and not before', async (t) => {
  const { book, ref, redis, session, store, sweeper } = await openFiles(t)
  const row = fileRow({ session })
  await book.begin(ref, row)
  await book.reserve(ref, { id: row.id, bytes: 1000, quotaBytes })
  store.unfinished.add(objectName(ref, row.id))
  const due = keys.due(ref)
  t.equal(await sweeper().sweep(), 0, 'it lives')
  t.strictSame(await storageOf(redis, ref), { used: 0, reserved: 1000 + rowBytes })
  await redis.zadd(due, 0, `upload ${row.id}`)
  await redis.zadd(keys.dueAccounts, 0, `0:${ref}`)
  t.equal(await sweeper().sweep(), 1)
  t.strictSame(store.calls, [`abandon ${objectName(ref, row.id)}`])
  t.equal(store.unfinished.size, 0)
  t.strictSame(await storageOf(redis, ref), { used: 0, reserved: 0 })
  t.equal(await redis.hexists(keys.storage(ref), row.id), 0)
  t.strictSame(await dueOf(redis, ref), [])
  await t.rejects(book.commit(ref, row, { quotaBytes }), { code: 'storage_unavailable' })
})

t.test('an upload that wakes while it is swept cannot become a file', async (t) => {
  const { book, ref, redis, session, store, sweeper } = await openFiles(t, { leaseMs: 0 })
  const row = fileRow({ session })
  await book.begin(ref, row)
  await book.reserve(ref, { id: row.id, bytes: 1000, quotaBytes })
  let release = () => {}
  store.gate = new Promise<void>((resolve) => (release = resolve))
  const sweeping = sweeper().sweep()
  await until(() => store.calls.length > 0)
  const late = { code: 'storage_unavailable' }
  await t.rejects(book.renew(ref, row.id), late)
  await t.rejects(book.commit(ref, row, { quotaBytes }), late)
  t.strictSame(
    await storageOf(redis, ref),
    { used: 0, reserved: 1000 + rowBytes },
    'while it may be there',
  )
  release()
  t.equal(await sweeping, 1)
  t.strictSame(await storageOf(redis, ref), { used: 0, reserved: 0 })
})

t.test('only one sweeper does a task, however many there are', async (t) => {
  const { book, ref, redis, server, session, store, sweeper } = await openFiles(t, { leaseMs: 0 })
  const files = { book, store, ref }
  for (let count = 0; count < 40; count++) {
    await book.begin(ref, fileRow({ session }))
    await addFile(files, { session, expiresAt: 1 })
  }
  const second = await connectLink(t, server.socket)
  const own = { takenMs: 60_000 }
  const other = { ...own, ...partsOn(second) }
  const all = [sweeper(own), sweeper(other), sweeper(own), sweeper(other)]
  const counts = await Promise.all(all.map((one) => one.sweep()))
  t.equal(new Set(store.calls).size, 80)
  t.equal(store.calls.length, 80, 'nothing twice')
  const total = counts.reduce((sum, count) => sum + count, 0)
  t.equal(total, 40 + 40 * 2, 'an expiry is two things')
  t.strictSame(await storageOf(redis, ref), { used: 0, reserved: 0 })
})

t.test('a deletion that fails is tried again, each time later, until it succeeds', async (t) => {
  const { book, ref, redis, session, store, problems, sweeper } = await openFiles(t)
  const { id } = await addFile({ book, store, ref }, { session })
  const waits: number[] = []
  store.failures = 9
  await book.remove(ref, id)
  const impatient = sweeper({ takenMs: 60_000 })
  for (;;) {
    await redis.zadd(keys.dueAccounts, 0, `0:${ref}`)
    const isDone = (await impatient.sweep()) > 0
    const member = (await dueOf(redis, ref)).find((one) => one.startsWith('object'))
    if (!member) {
      t.ok(isDone)
      break
    }
    t.notOk(await isForgotten(redis, ref))
    waits.push(
      Math.round((Number(await redis.zscore(keys.due(ref), member)) - Date.now()) / 60_000),
    )
    await redis.zadd(keys.due(ref), 0, member)
  }
  t.strictSame(waits, [1, 2, 4, 8, 16, 32, 60, 60], 'minutes, an hour at most')
  t.equal(store.objects.size, 0)
  t.equal(problems.length, 8)
  t.match(problems[0], { ref, what: `object ${id} 1`, error: { code: 'storage_unavailable' } })
})

t.test('what a sweeper had taken when it died is done by the next', async (t) => {
  const { book, ref, redis, session, store, sweeper, link } = await openFiles(t, { leaseMs: 0 })
  const { id } = await addFile({ book, store, ref }, { session })
  const dead = fileRow({ session })
  await book.begin(ref, dead)
  store.failures = 1
  await book.remove(ref, id)
  store.calls.length = 0
  store.gate = new Promise<void>(() => undefined)
  const dying = sweeper()
  const sweeping = dying.sweep()
  await until(() => store.calls.length === 2)
  await dying.close()
  t.equal(await sweeping, 0)
  t.ok(link.up)
  store.gate = Promise.resolve()
  t.notOk(await isForgotten(redis, ref))
  await redis.zadd(keys.dueAccounts, 0, `0:${ref}`)
  t.equal(await sweeper().sweep(), 2)
  t.strictSame(await dueOf(redis, ref), [`session ${session}`])
})

t.test('a store that hangs does not delay the other tasks', async (t) => {
  const { book, ref, redis, session, store, problems, sweeper } = await openFiles(t)
  await addFile({ book, store, ref }, { session, expiresAt: 1 })
  store.gate = new Promise<void>(() => undefined)
  const impatient = sweeper({ storeMs: 20, takenMs: 60_000 })
  t.equal(await impatient.sweep(), 1, 'the expiry')
  t.match(problems, [{ error: { name: 'TimeoutError' } }])
  t.strictSame(await storageOf(redis, ref), { used: 0, reserved: 0 })
})

t.test('the sweeper runs by itself, and again after a failure', async (t) => {
  const { book, ref, session, store, problems, sweeper, server } = await openFiles(t)
  await addFile({ book, store, ref }, { session, expiresAt: 1 })
  const own = sweeper({ everyMs: 10 })
  await until(() => store.objects.size === 0)
  await server.stop()
  await until(() => problems.length > 2)
  t.match(problems.at(-1), { what: 'a round', error: { code: 'ledger_unavailable' } })
  await t.rejects(own.sweep(), { code: 'ledger_unavailable' })
  await own.close()
})

t.test('accounts are swept in parallel, those without work are skipped', async (t) => {
  const { book, redis, store, sweeper } = await openFiles(t)
  const refs = Array.from({ length: 30 }, () => newRef())
  for (const ref of refs) {
    const session = await addSession(redis, ref)
    await addFile({ book, store, ref }, { session, expiresAt: 1 })
  }
  await sweeper().sweep()
  t.equal(store.objects.size, 0)
  for (const ref of refs) {
    t.notOk(await isForgotten(redis, ref))
    const own = (await redis.zrange(keys.dueAccounts, '0', '-1')).filter((one) => one.includes(ref))
    t.equal(own.length, 2, 'for the lease that was announced, and for the session')
  }
})

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
