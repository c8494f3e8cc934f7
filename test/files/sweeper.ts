import t from 'tap'
import { objectName } from '../../src/files/file-row.ts'
import { newRef } from '../../src/accounts/api-key.ts'
import { keys } from '../../src/redis/redis.ts'
import {
  addFile,
  addSession,
  dueOf,
  fileRow,
  isForgotten,
  openFiles,
  quotaBytes,
  rowBytes,
  partsOn,
  storageOf,
} from '../fixtures/file-rows.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { until } from '../fixtures/until.ts'

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
