// Redis forgets a message during its generation: its readers still get an end, and what is known of it is written
// again.

import t from 'tap'
import type { Test } from 'tap'
import { keys } from '../../src/redis/keys.ts'
import { chat } from '../fixtures/backend-model.ts'
import { Gate } from '../fixtures/gate.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { differencesOf, refOf } from '../fixtures/money.ts'
import { messageIdOf, startChat } from '../fixtures/session-chat.ts'
import { until } from '../fixtures/until.ts'

const chunks = 8
const early = 4
const whole = Array.from({ length: chunks }, (_, i) => `w${i} `).join('')

/** A message that waits after its first words, which Redis has. */
async function midMessage(t: Test) {
  const gate = new Gate()
  const it = await startChat(t, { script: chat({ chunks, gate }) })
  const { client } = await connectLink(t, it.gateway.redis.socket)
  gate.next(1 + early)
  const live = await it.send(it.sessionId)
  await live.until(`w${early - 1} `)
  const ref = refOf(it.account)
  const id = messageIdOf(live)
  const names = {
    stream: keys.stream(ref, id),
    frames: keys.frames(ref, id),
    messages: keys.messages(ref, it.sessionId),
    ids: keys.messageIds(ref, it.sessionId),
  }
  const isStored = () => until(async () => Number(await client.hget(names.stream, 'next')) > early)
  await isStored()
  return { ...it, gate, client, live, ref, id, names, isStored }
}

type Mid = Awaited<ReturnType<typeof midMessage>>

async function isWhole(t: Test, { live, id, sessionId, ...it }: Mid): Promise<void> {
  const text = (await live.end()).toString()
  t.match(text, /data: \[DONE\]\n\n$/, 'its reader has the end')
  t.match(text, new RegExp(`"w${chunks - 1} "`))
  await until(async () => (await it.message(sessionId, id)).status === 'completed')
  t.equal((await it.message(sessionId, id)).content, whole)
  const ids = (await it.messages(sessionId)).map((message) => message.id)
  t.equal(ids.filter((one) => one === id).length, 1)
  t.equal((await it.send(sessionId, 'And then?')).status, 200, 'the session goes on')
  t.same(await differencesOf(it.gateway), [])
}

t.test('the stream is forgotten: it is written again, and is whole', async (t) => {
  const it = await midMessage(t)
  await it.client.del(it.names.stream, it.names.frames)
  await it.isStored()
  const path = `/${it.sessionId}/messages/${it.id}/stream`
  const again = await it.at(path, {}, await it.another())
  t.equal(again.status, 200, 'others can read it along again')
  it.gate.open()
  await isWhole(t, it)
  t.match((await again.end()).toString(), /w0 .*w7 .*data: \[DONE\]\n\n$/s)
})

t.test('the stream and the rows are forgotten, the session is not', async (t) => {
  const it = await midMessage(t)
  await it.client.del(it.names.stream, it.names.frames, it.names.messages, it.names.ids)
  it.gate.open()
  await isWhole(t, it)
})

t.test('all of them are forgotten at the very end', async (t) => {
  const it = await midMessage(t)
  it.gate.next(chunks - early)
  await it.live.until(`w${chunks - 1} `)
  await it.client.del(it.names.stream, it.names.frames, it.names.messages, it.names.ids)
  it.gate.open()
  await isWhole(t, it)
})

t.test(
  'the session is forgotten, too: its reader gets an end with a reason, and no row comes back',
  async (t) => {
    const it = await midMessage(t)
    const { stream, frames, messages, ids } = it.names
    await it.client.del(keys.session(it.ref, it.sessionId), stream, frames, messages, ids)
    const text = (await it.live.end()).toString()
    t.match(text, /"code":"session_not_found".*\n\n$/)
    t.notMatch(text, /\[DONE\]/)
    t.equal(await it.client.exists(stream, frames, messages, ids), 0)
  },
)

t.test('Redis forgets everything: its reader gets an end', async (t) => {
  const it = await midMessage(t)
  await it.client.flushall()
  // Balance and key are gone, too: the checkpoint may stop it before the missing row does.
  const text = (await it.live.end()).toString()
  t.match(text, /"code":"session_not_found".*\n\n$|"finish_reason":"length".*data: \[DONE\]\n\n$/s)
})

t.test('a session that was deleted stays deleted', async (t) => {
  const it = await midMessage(t)
  await it.at(`/${it.sessionId}`, { method: 'DELETE' })
  const text = (await it.live.end()).toString()
  t.match(text, /message_cancelled/)
  await until(async () => (await it.client.hget(it.names.stream, 'ended')) === '1')
  t.equal(await it.client.exists(it.names.messages, it.names.ids), 0)
  t.equal(await it.client.exists(keys.session(it.ref, it.sessionId)), 0)
})
