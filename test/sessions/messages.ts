import t from 'tap'
import { newId } from '../../src/ids.ts'
import { newRef } from '../../src/accounts/api-key.ts'
import { keys } from '../../src/redis/keys.ts'
import { addMessage, openSessions } from '../fixtures/sessions.ts'

const oldest = { limit: 20, order: 'asc' } as const

t.test('messages are listed as they are shown, in the requested order', async (t) => {
  const { book, messages, ref, redis } = await openSessions(t)
  const { id: session } = await book.create(ref, {})
  t.match(await messages.list({ ref, session }, oldest), { data: [], has_more: false })
  const first = await addMessage(redis, { ref, session }, { role: 'user', hold: 'hidden' })
  const second = await addMessage(redis, { ref, session })
  const list = await messages.list({ ref, session }, oldest)
  t.match(list, {
    object: 'list',
    first_id: first.id,
    last_id: second.id,
    has_more: false,
    data: [
      { id: first.id, object: 'chat.message', session_id: session, role: 'user' },
      { id: second.id, content: 'Hello', tool_calls: null, reasoning: null },
    ],
  })
  t.notMatch(JSON.stringify(list), /hidden/)
  const down = await messages.list({ ref, session }, { limit: 1, order: 'desc' })
  t.match(down, { first_id: second.id, has_more: true })
  const rest = await messages.list({ ref, session }, { ...oldest, after: first.id })
  t.match(rest, { first_id: second.id, has_more: false })
})

t.test('one message is read as it is kept', async (t) => {
  const { book, messages, ref, redis } = await openSessions(t)
  const { id: session } = await book.create(ref, {})
  const message = await addMessage(redis, { ref, session }, { hold: 'h' })
  t.strictSame(await messages.read({ ref, session, message: message.id }), message)
  await t.resolves(messages.check({ ref, session, message: message.id }))
})

t.test('an account that reads a message many times has one copy of it in memory', async (t) => {
  const { book, messages, ref, redis } = await openSessions(t)
  const { id: session } = await book.create(ref, {})
  const message = await addMessage(redis, { ref, session })
  let [reading, most] = [0, 0]
  const evalsha = redis.evalsha.bind(redis)
  t.intercept(redis, 'evalsha', {
    value: async (...args: Parameters<typeof evalsha>) => {
      most = Math.max(most, ++reading)
      return await evalsha(...args).finally(() => reading--)
    },
  })
  const place = { ref, session, message: message.id }
  const all = await Promise.all(Array.from({ length: 50 }, () => messages.read(place)))
  t.strictSame(all.at(-1), message)
  t.equal(most, 1)
})

t.test("nobody's, somebody else's and another session's messages are not found", async (t) => {
  const { book, messages, ref, redis } = await openSessions(t)
  const { id: session } = await book.create(ref, {})
  const { id: other } = await book.create(ref, {})
  const { id } = await addMessage(redis, { ref, session })
  const none = { code: 'message_not_found' }
  for (const wrong of [newId('msg'), 'msg_', '', '*', session, `${id}0`]) {
    await t.rejects(messages.read({ ref, session, message: wrong }), none, wrong)
    await t.rejects(messages.check({ ref, session, message: wrong }), none, wrong)
  }
  await t.rejects(messages.read({ ref, session: other, message: id }), none)
  const nobody = { code: 'session_not_found' }
  for (const [whose, which] of [
    [newRef(), session],
    [ref, newId('sess')],
    [ref, 'sess_'],
    [ref, ''],
  ] as const) {
    await t.rejects(messages.read({ ref: whose, session: which, message: id }), nobody)
    await t.rejects(messages.check({ ref: whose, session: which, message: id }), nobody)
    await t.rejects(messages.read({ ref: whose, session: which, message: 'msg_' }), nobody)
    await t.rejects(messages.list({ ref: whose, session: which }, oldest), nobody)
  }
})

t.test('a row in another format is skipped, and stays', async (t) => {
  const { book, messages, ref, redis } = await openSessions(t)
  const { id: session } = await book.create(ref, {})
  const good = await addMessage(redis, { ref, session })
  const bad = await addMessage(redis, { ref, session })
  await redis.hset(keys.messages(ref, session), bad.id, '{"id":1}')
  t.match(await messages.list({ ref, session }, oldest), { last_id: good.id, has_more: false })
  await t.rejects(messages.read({ ref, session, message: bad.id }), { code: 'message_not_found' })
  t.equal(await redis.zcard(keys.messageIds(ref, session)), 2)
})
