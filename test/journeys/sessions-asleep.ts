// Sessions whose messages sleep in the store, as their clients see them: like any others.

import { rename, symlink, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { keys } from '../../src/redis/keys.ts'
import { createScripts } from '../../src/redis/scripts.ts'
import { putToSleep } from '../../src/sessions/asleep/sleeping.ts'
import { sessionScripts } from '../../src/sessions/library.ts'
import { chat } from '../fixtures/backend-model.ts'
import { balanceOf, differencesOf, refOf } from '../fixtures/money.ts'
import { messageIdOf, refusal, startChat } from '../fixtures/session-chat.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

/** A session of two questions and answers. */
async function start(t: Test) {
  const path = await tempDir(t)
  const yaml = `store: { disk: { path: '${path}' } }`
  const chat_ = await startChat(t, { script: chat({ chunks: 5 }), yaml })
  const { gateway, account, sessionId: session } = chat_
  const ref = refOf(account)
  const { redis: link, store } = gateway.gateway
  const redis = link.client
  const scripts = createScripts({ link, library: sessionScripts })
  const sent: string[] = []
  for (const text of ['first question', 'second question']) {
    const live = await chat_.send(session, text)
    await live.end()
    sent.push(messageIdOf(live))
  }
  const sleep = async () => {
    t.ok(await putToSleep({ redis, scripts, store }, { ref, session }), 'it sleeps')
  }
  const sleeps = async () => (await redis.hexists(keys.session(ref, session), 'asleep')) === 1
  return { ...chat_, path, ref, redis, store, session, sent, sleep, sleeps }
}

t.test('a session that slept goes on with its whole history, on any gateway', async (t) => {
  const it = await start(t)
  const { session, sleep, sleeps, send, messages, another, backend, gateway, account, read } = it
  const before = await messages(session)
  const other = await another()
  await sleep()
  t.match(await read(`/${session}`), { id: session, message_count: 4 })
  t.ok(await sleeps(), 'to look at a session does not wake it')
  await (await send(session, 'third question', {}, other)).end()
  t.notOk(await sleeps())
  const { body } = backend.requests.at(-1) ?? {}
  const asked = JSON.parse(String(body)) as { messages: readonly { content: string }[] }
  const said = asked.messages.map(({ content }) => content)
  t.strictSame(
    said,
    [...before.map(({ content }) => content), 'third question'],
    'the backend gets all of it',
  )
  const after = await messages(session)
  t.strictSame(after.slice(0, 4), before)
  t.equal(after.length, 6)
  t.match(await balanceOf(gateway, account), { reserved: 0 })
  t.strictSame(await differencesOf(gateway), [])
})

t.test('its streams are read again, its messages shown, its sends repeated', async (t) => {
  const it = await start(t)
  const { session, sleep, sleeps, at, message, sent, send } = it
  const headers = { 'idempotency-key': 'one' }
  const first = await (await send(session, 'third question', { headers })).end()
  const [, mid = ''] = sent
  for (const work of [
    async () =>
      t.match(
        (await (await at(`/${session}/messages/${mid}/stream`)).end()).toString(),
        /\[DONE\]/,
      ),
    async () => t.match(await message(session, mid), { id: mid, status: 'completed' }),
    async () =>
      t.equal((await at(`/${session}/messages/${mid}/cancel`, { method: 'POST' })).status, 200),
    async () =>
      t.strictSame(await (await send(session, 'third question', { headers })).end(), first),
  ]) {
    await sleep()
    await work()
    t.notOk(await sleeps())
  }
})

t.test('a stranger who knows the names of account and session does not wake it', async (t) => {
  const { session, sleep, sleeps, send, key } = await start(t)
  await sleep()
  const wrong = key.slice(0, -8) + (key.endsWith('aaaaaaaa') ? 'bbbbbbbb' : 'aaaaaaaa')
  const answer = await send(session, 'x', { key: wrong })
  t.equal(answer.status, 401)
  await answer.end()
  t.ok(await sleeps())
})

t.test('without the store, what needs the messages of a sleeping session is refused', async (t) => {
  const it = await start(t)
  const { session: id, sleep, sleeps, send, at, path, read, store, gateway, account } = it
  await sleep()
  const [name = ''] = await store.list('sessions/')
  const file = join(path, name)
  await rename(file, `${file}-away`)
  // A link to itself cannot be read: as good as a fault of the disk.
  await symlink(file, file)
  const unavailable = [503, 'storage_unavailable']
  t.strictSame(await refusal(await at(`/${id}/messages`)), unavailable)
  t.strictSame(await refusal(await send(id, 'third question')), unavailable)
  t.match(await read(''), { data: [{ id, message_count: 4 }] })
  const awake = await (await at('', { body: {} })).json()
  t.equal((await send(String(awake['id']), 'Hi')).status, 200)
  await unlink(file)
  t.strictSame(await refusal(await send(id, 'third question')), [500, 'internal_error'])
  t.ok(gateway.log.some((line) => line.includes('is not in the store') && line.includes(id)))
  t.ok(await sleeps())
  await rename(`${file}-away`, file)
  t.equal((await send(id, 'third question')).status, 200)
  t.match(await balanceOf(gateway, account), { owed: 0 })
})
