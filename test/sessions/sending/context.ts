// What a send reads of its session: the settings at once, the messages newest first, chunk by chunk, each once.

import t from 'tap'
import { newId } from '../../../src/ids.ts'
import { keys } from '../../../src/redis/redis.ts'
import { readContext } from '../../../src/sessions/sending/context.ts'
import type { Context } from '../../../src/sessions/sending/context.ts'
import { openStreams, rowOf } from '../../fixtures/stream.ts'
import type { Opened } from '../../fixtures/stream.ts'

const idsOf = async ({ messages }: Context) => {
  const ids: string[] = []
  for await (const { id } of messages()) ids.push(id)
  return ids
}

/** A session with messages of `bytes` each. */
async function fill({ redis, ref }: Opened, count: number, bytes = 10) {
  const session = newId('sess')
  await redis.hset(keys.session(ref, session), 'id', session)
  const ids = Array.from({ length: count }, () => newId('msg'))
  const batch = redis.pipeline()
  for (const id of ids) {
    const row = JSON.stringify(rowOf({ id, content: 'x'.repeat(bytes) }))
    batch.zadd(keys.messageIds(ref, session), 0, id)
    batch.hset(keys.messages(ref, session), id, row)
  }
  await batch.exec()
  return { session, ids: ids.toReversed() }
}

const flights = async ({ redis }: Opened) =>
  Number((await redis.info('commandstats')).match(/evalsha:calls=(\d+)/)?.[1] ?? 0)

t.test('its settings are what the session has, or nothing', async (t) => {
  const { scripts, ref, redis, start } = await openStreams(t)
  const owned = await start()
  const { session, message } = owned
  const settings = { model: 'm', instructions: 'Be brief' }
  t.match(await readContext(scripts, ref, session), {
    model: undefined,
    instructions: null,
    last: message,
    active: message,
  })
  await redis.hset(keys.session(ref, session), settings)
  t.match(await readContext(scripts, ref, session), settings)
})

t.test('messages come newest first, each once, however many', async (t) => {
  const opened = await openStreams(t)
  const { scripts, ref } = opened
  await opened.scripts.load()
  for (const count of [0, 1, 255, 256, 257, 512, 600]) {
    const { session, ids } = await fill(opened, count)
    const before = await flights(opened)
    t.same(await idsOf(await readContext(scripts, ref, session)), ids, `${count}`)
    const asked = (await flights(opened)) - before
    t.equal(asked, Math.max(1, Math.ceil(count / 256)), `${count} in ${asked} flights`)
  }
})

t.test('large messages come in more flights, and who needs no more asks for none', async (t) => {
  const opened = await openStreams(t)
  const { scripts, ref } = opened
  await opened.scripts.load()
  const { session, ids } = await fill(opened, 6, 600_000)
  const before = await flights(opened)
  t.same(await idsOf(await readContext(scripts, ref, session)), ids)
  t.equal((await flights(opened)) - before, 3)
  const context = await readContext(scripts, ref, session)
  for await (const { id } of context.messages()) {
    t.equal(id, ids[0])
    break
  }
  t.equal((await flights(opened)) - before, 4)
})

t.test('an invalid row is skipped', async (t) => {
  const opened = await openStreams(t)
  const { scripts, ref, redis } = opened
  const { session, ids } = await fill(opened, 3)
  await redis.hset(keys.messages(ref, session), ids[1] ?? '', '{"no":"message"}')
  await redis.hdel(keys.messages(ref, session), ids[2] ?? '')
  t.same(await idsOf(await readContext(scripts, ref, session)), [ids[0]])
})

t.test('a missing session, or an invalid one, is session_not_found', async (t) => {
  const { scripts, ref, server } = await openStreams(t)
  for (const id of [newId('sess'), newId('msg'), '', 'x}:sessions', `sess_${'0'.repeat(31)}`]) {
    await t.rejects(readContext(scripts, ref, id), { code: 'session_not_found' }, id)
  }
  await server.stop()
  await t.rejects(readContext(scripts, ref, newId('sess')), { code: 'ledger_unavailable' })
})
