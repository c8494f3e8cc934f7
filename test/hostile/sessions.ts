// Random requests to sessions: ids, cursors, queries, headers and bodies that nobody sends by accident, by the owner
// and by a stranger. Each is answered, never with an error of the gateway, and a stranger never learns what exists.

import t from 'tap'
import type { Test } from 'tap'
import { chat as model } from '../fixtures/backend-model.ts'
import { balanceOf, differencesOf } from '../fixtures/money.ts'
import { seeded } from '../fixtures/random.ts'
import { messageIdOf, startChat } from '../fixtures/session-chat.ts'
import type { Chat } from '../fixtures/session-chat.ts'
import { fuzzed } from '../fixtures/session-fuzz.ts'
import type { Fuzzed, Known } from '../fixtures/session-fuzz.ts'

const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
const requests = Number(process.env.REQUESTS ?? 1500)

/** Returns what is wrong with the answer; undefined if nothing is. */
async function wrongWith(chat: Chat, one: Fuzzed, key: string): Promise<string | undefined> {
  const { path, ...asked } = one
  const answer = await chat.at(path, { ...asked, key })
  const text = (await answer.end()).toString()
  const { status } = answer
  if (status >= 500) return `${status} ${text}`
  if (!answer.headers['x-request-id'] && status !== 400) return 'no request id'
  if (status < 400 || one.method === 'HEAD') return undefined
  const { error, request_id } = JSON.parse(text) as {
    error?: { code?: unknown }
    request_id?: unknown
  }
  return typeof error?.code === 'string' && typeof request_id === 'string' ? undefined : text
}

t.test(
  `random requests never cause an error of the gateway (SEED=${seed})`,
  { timeout: 120_000 },
  async (t) => {
    const chat = await startChat(t, { script: model({ chunks: 2 }), tokens: 1_000_000_000 })
    const known = await conversation(chat)
    const stranger = await chat.gateway.account(1_000_000)
    const random = seeded(seed)
    for (let i = 0; i < requests; i++) {
      const one = fuzzed(random, known)
      const key = random(4) ? chat.key : stranger.key
      const wrong = await wrongWith(chat, one, key).catch((error: unknown) => String(error))
      if (wrong !== undefined)
        t.fail(`${i}: ${wrong.slice(0, 300)}`, { ...one, body: String(one.body) })
    }
    t.ok(chat.backend.requests.length > 2, `some were right: ${chat.backend.requests.length}`)
    t.match(await chat.message(known.session, known.message), { status: 'completed' })
    t.equal((await chat.send(await chat.session())).status, 200, 'the next send works')
    const faults = chat.gateway.log.filter((line) => /"level":(50|60|"error"|"fatal")/.test(line))
    t.strictSame(faults, [])
    t.match(await balanceOf(chat.gateway, stranger), { reserved: 0 })
    t.strictSame(await differencesOf(chat.gateway), [])
  },
)

async function conversation(chat: Chat): Promise<Known> {
  const live = await chat.send(chat.sessionId)
  await live.end()
  return { session: chat.sessionId, message: messageIdOf(live) }
}

t.test('for a stranger, nothing of a session exists, and nothing of it changes', async (t) => {
  const chat = await startChat(t)
  const { session, message } = await conversation(chat)
  const before = [await chat.read(`/${session}`), await chat.messages(session)]
  const { key } = await chat.gateway.account(1_000_000)
  const own = await strangersSession(t, chat, key)
  const foreign: readonly (readonly [string, string, object?])[] = [
    ['GET', `/${session}`],
    ['PATCH', `/${session}`, { title: 'mine' }],
    ['DELETE', `/${session}`],
    ['GET', `/${session}/messages`],
    ['GET', `/${session}/messages?after=${message}`],
    ['POST', `/${session}/messages`, { content: 'Hi' }],
    ['GET', `/${session}/stream`],
    ['GET', `/${session}/messages/${message}`],
    ['GET', `/${session}/messages/${message}/stream`],
    ['GET', `/${session}/messages/${message}/stream?starting_after=0`],
    ['POST', `/${session}/messages/${message}/cancel`],
    ['GET', `/${own}/messages/${message}`],
    ['GET', `/${own}/messages/${message}/stream`],
    ['POST', `/${own}/messages/${message}/cancel`],
  ]
  for (const [method, path, body] of foreign) {
    const cursor = { 'Last-Event-ID': `${message}:0` }
    for (const headers of [{}, method === 'PATCH' || method === 'DELETE' ? {} : cursor]) {
      const answer = await chat.at(path, { method, key, headers, ...(body && { body }) })
      const { error } = await answer.json()
      t.match(
        [answer.status, error],
        [404, { code: /^(session|message)_not_found$/ }],
        `${method} ${path}`,
      )
    }
  }
  const list = await chat.at('', { key })
  t.match(await list.json(), { data: [{ id: own }] })
  t.strictSame([await chat.read(`/${session}`), await chat.messages(session)], before)
  t.equal(chat.backend.requests.length, 1)
})

async function strangersSession(t: Test, chat: Chat, key: string): Promise<string> {
  const made = await (await chat.at('', { key, body: {} })).json()
  t.type(made['id'], 'string')
  return String(made['id'])
}
