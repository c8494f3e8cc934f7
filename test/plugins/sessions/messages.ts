import t from 'tap'
import { newId } from '../../../src/ids.ts'
import { addMessage } from '../../fixtures/sessions.ts'
import { codeIn, startSessions } from '../../fixtures/sessions-http.ts'

async function start(t: Parameters<typeof startSessions>[0]) {
  const sessions = await startSessions(t)
  const { id: session } = await sessions.make()
  const add = (fields: Parameters<typeof addMessage>[2] = {}) =>
    addMessage(sessions.gateway.redis.client, { ref: sessions.ref, session }, fields)
  return { ...sessions, session, add }
}

t.test('messages are listed oldest first, in pages both ways', async (t) => {
  const { call, session, add } = await start(t)
  t.match((await call(`GET /${session}/messages`)).body, { data: [], first_id: null })
  const ids: string[] = []
  for (let i = 0; i < 5; i++) ids.push((await add({ content: `${i}` })).id)
  const list = async (query: string) => {
    const { body } = await call(`GET /${session}/messages?${query}`)
    return (body as { data: readonly { id: string }[] }).data.map(({ id }) => id)
  }
  t.same(await list(''), ids)
  t.same(await list('limit=2'), ids.slice(0, 2))
  t.same(await list(`limit=2&after=${ids[1]}`), ids.slice(2, 4))
  t.same(await list(`limit=2&before=${ids[3]}`), ids.slice(1, 3))
  t.same(await list('order=desc'), ids.toReversed())
  t.same(await list(`after=${newId('msg')}`), [], 'a cursor is a place')
})

t.test('a message has every field of docs/api.md, and no other', async (t) => {
  const { call, session, add } = await start(t)
  const { id } = await add({ hold: 'secret' })
  const { status, body } = await call(`GET /${session}/messages/${id}`)
  t.equal(status, 200)
  t.strictSame(body, {
    id,
    object: 'chat.message',
    session_id: session,
    role: 'assistant',
    content: 'Hello',
    tool_calls: null,
    reasoning: null,
    status: 'completed',
    finish_reason: 'stop',
    model: 'm',
    usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3, estimated: false },
    cost: 3,
    error: null,
    created_at: 1_795_200_000,
    completed_at: 1_795_200_001,
  })
})

t.test("messages that do not exist, or are somebody else's, are not found", async (t) => {
  const { call, session, add, make, strangersKey: as } = await start(t)
  const { id } = await add()
  const { id: other } = await make()
  const cases: readonly (readonly [string, string, string?])[] = [
    [`GET /${session}/messages/${newId('msg')}`, 'message_not_found'],
    [`GET /${session}/messages/msg_1`, 'message_not_found'],
    [`GET /${session}/messages/%00`, 'message_not_found'],
    [`GET /${other}/messages/${id}`, 'message_not_found'],
    [`GET /sess_1/messages/${id}`, 'session_not_found'],
    [`GET /${newId('sess')}/messages`, 'session_not_found'],
    [`GET /${session}/messages`, 'session_not_found', as],
    [`GET /${session}/messages/${id}`, 'session_not_found', as],
  ]
  for (const [line, code, whose] of cases) {
    const refused = await call(line, undefined, whose ? { as: whose } : {})
    t.match([refused.status, codeIn(refused)], [404, code], line)
  }
})

t.test('a cursor that is not the id of a message is refused', async (t) => {
  const { call, session } = await start(t)
  for (const cursor of ['x', session, '%00', newId('msg').toUpperCase()]) {
    for (const param of ['after', 'before']) {
      const answer = await call(`GET /${session}/messages?${param}=${cursor}`)
      t.match(answer, { status: 400, body: { error: { code: 'invalid_parameter', param } } })
    }
  }
})
