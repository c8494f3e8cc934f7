// The Lua of the files.

import t from 'tap'
import { keys } from '../../src/redis/keys.ts'
import {
  addFile,
  addSession,
  dueOf,
  fileRow,
  openFiles,
  quotaBytes,
} from '../fixtures/file-rows.ts'
import { freePort } from '../fixtures/free-port.ts'
import { until } from '../fixtures/until.ts'

t.test("files live on a Cluster's node", async (t) => {
  const bus = ['--cluster-port', `${await freePort()}`, '--bind', '127.0.0.1']
  const args = ['--cluster-enabled', 'yes', ...bus]
  const { book, ref, redis, store, sweeper } = await openFiles(t, { args, leaseMs: 0 })
  await redis.cluster('ADDSLOTSRANGE', 0, 16383)
  await until(async () => (await redis.cluster('INFO')).includes('cluster_state:ok'))
  const session = await addSession(redis, ref)
  const files = { book, store, ref }
  const removed = await addFile(files, { session })
  await book.remove(ref, removed.id)
  const expired = await addFile(files, { session, expiresAt: 1 })
  await addFile(files, { session })
  const dead = fileRow({ session })
  await book.begin(ref, dead)
  const mistaken = fileRow({ session })
  await book.begin(ref, mistaken)
  await book.reserve(ref, { id: mistaken.id, bytes: 1, quotaBytes })
  await book.abandon(ref, mistaken.id)
  t.match(await book.list(ref, { limit: 9, order: 'asc' }, session), { data: { length: 1 } })
  await sweeper().sweep()
  t.strictSame(store.calls.slice(1).toSorted(), [
    `abandon files/${ref}/${dead.id}`,
    `remove files/${ref}/${expired.id}`,
  ])
  await redis.del(keys.session(ref, session))
  await redis.zadd(keys.due(ref), 0, `session ${session}`)
  await redis.zadd(keys.dueAccounts, 0, `0:${ref}`)
  await sweeper().sweep()
  t.strictSame([...store.objects], [])
  t.strictSame(await dueOf(redis, ref), [])
})
