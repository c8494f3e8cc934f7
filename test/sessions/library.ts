// The Lua of the sessions.

import { claimOf } from '../../src/redis/claims.ts'
import t from 'tap'
import { newId } from '../../src/ids.ts'
import { keys } from '../../src/redis/keys.ts'
import { putToSleep } from '../../src/sessions/asleep/sleeping.ts'
import { letObjectsAge } from '../fixtures/asleep.ts'
import { freePort } from '../fixtures/free-port.ts'
import { addMessage, openSessions } from '../fixtures/sessions.ts'
import { until } from '../fixtures/until.ts'

t.test("sessions live on a Cluster's node, where foreign slots are refused", async (t) => {
  const bus = ['--cluster-port', `${await freePort()}`, '--bind', '127.0.0.1']
  const args = ['--cluster-enabled', 'yes', ...bus]
  const it = await openSessions(t, { args })
  const { book, messages, ref, redis, asleepParts, rounds } = it
  await redis.cluster('ADDSLOTSRANGE', 0, 16383)
  await until(async () => (await redis.cluster('INFO')).includes('cluster_state:ok'))
  const key = keys.claim(ref, 'a')
  const words = () => ({ key, running: 'mine', kept: 'kept' })
  const claim = claimOf(words, async () => undefined)
  await redis.set(key, 'mine')
  const { id: session } = await book.create(ref, {}, { claim, quotaBytes: 1e6 })
  await book.patch(ref, session, { title: 'x' })
  await addMessage(redis, { ref, session })
  const page = { limit: 20, order: 'asc' } as const
  t.ok(await putToSleep(asleepParts, { ref, session }))
  t.match(await messages.list({ ref, session }, page), { data: { length: 1 } }, 'it wakes')
  await letObjectsAge(redis, ref)
  t.match(await rounds.walk(3_600_000), { slept: 0, removed: 1 })
  await addMessage(redis, { ref, session }, { status: 'in_progress' })
  t.match(await messages.list({ ref, session }, page), { data: { length: 2 } })
  t.match(await book.list(ref, page), { first_id: session })
  await book.remove(ref, session)
  await t.rejects(messages.read({ ref, session, message: newId('msg') }), {
    code: 'session_not_found',
  })
})
