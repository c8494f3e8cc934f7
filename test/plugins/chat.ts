// Known ways to get answers without paying, or to make half an answer look whole: each must stay closed.

import t from 'tap'
import { newKey } from '../../src/accounts/api-key.ts'
import { json, sse } from '../fixtures/backend-scripts.ts'
import { chat } from '../fixtures/backend-model.ts'
import { chatPath, hi } from '../fixtures/chat-path.ts'
import { codeOf, refusedWith } from '../fixtures/gateway.ts'

const event = (value: object): string => `data: ${JSON.stringify(value)}\n\n`
const said = (content: string, finish_reason: string | null = null) =>
  event({ choices: [{ index: 0, delta: { content }, finish_reason }] })
const done = 'data: [DONE]\n\n'

t.test('a backend that reports zeros is counted: content is never free', async (t) => {
  const { backend, stream, spent } = await chatPath(t)
  const words = Array.from({ length: 50 }, (_, i) => said(` word${i}`))
  const usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }
  const zeros = event({ choices: [], usage })
  backend.on(sse([...words, said('', 'stop'), zeros, done]))
  t.match(await (await stream()).text(), /\[DONE\]\n\n$/)
  t.ok((await spent()) > 50, 'fifty words are more than fifty tokens, and there is the prompt')
})

t.test('an error after other keys ends the stream, without [DONE] or secrets', async (t) => {
  const { backend, stream } = await chatPath(t, { target: 'key: sk-very-secret' })
  const error = { message: 'sk-very-secret failed' }
  const late = event({ id: 'x', error, choices: [{ index: 0, finish_reason: 'error' }] })
  backend.on(sse([said('Hel'), late, done]))
  const text = await (await stream()).text()
  t.notMatch(text, /\[DONE\]/)
  t.match(text, /"error":\{"message":"\*\*\* failed"\}/)
})

t.test('a whole answer with an error in it is an error, and costs nothing', async (t) => {
  const { backend, ask, spent } = await chatPath(t)
  backend.on(json({ object: 'error', error: { message: 'sorry' }, choices: [] }))
  const answer = await ask()
  t.same(await refusedWith(answer), [502, 'upstream_error'])
  t.equal(await spent(), 0)
})

t.test('fields that would override the limit never reach a backend', async (t) => {
  const { backend, ask } = await chatPath(t, { model: "extra_parameters: ['*', n_predict]" })
  for (const [field, value] of Object.entries({ n_predict: -1, n_cmpl: 9, cache_salt: 'mine' })) {
    const answer = await ask({ ...hi, max_tokens: 5, [field]: value })
    t.same(await refusedWith(answer), [400, 'unknown_parameter'], field)
  }
  t.equal(backend.requests.length, 0)
})

t.test('a stranger learns nothing of the parameters of a model', async (t) => {
  const { backend, gate, ask } = await chatPath(t, { model: 'extra_parameters: [chat_template]' })
  backend.on(chat())
  const forged = newKey('A'.repeat(12))
  for (const field of ['chat_template', 'service_tier']) {
    const answer = await gate.call('/v1/chat', forged, { ...hi, [field]: 'x' })
    t.equal(answer.status, 401, field)
  }
  t.equal((await ask({ ...hi, chat_template: 'x' })).status, 200)
  const refused = await ask({ ...hi, service_tier: 'flex' })
  t.equal(refused.status, 400)
  t.match(await refused.json(), { error: { code: 'unknown_parameter', param: 'service_tier' } })
})

t.test('what is refused for its parameters asks for no money', async (t) => {
  const { gate } = await chatPath(t)
  const { key } = await gate.account(0)
  const refused = await gate.call('/v1/chat', key, { ...hi, service_tier: 'flex' })
  t.same(await refusedWith(refused), [400, 'unknown_parameter'])
  const unpaid = await gate.call('/v1/chat', key, hi)
  t.equal(await codeOf(unpaid), 'insufficient_balance')
})

t.test('without metering a key is still asked for', async (t) => {
  const { backend, gate, ask } = await chatPath(t, {
    yaml: 'plugins: { metering: false, sessions: false }',
  })
  backend.on(chat())
  t.equal((await ask()).status, 200)
  const forged = await gate.call('/v1/chat', newKey('A'.repeat(12)), hi)
  t.same(await refusedWith(forged), [401, 'invalid_api_key'])
  t.equal(backend.requests.length, 1)
})
