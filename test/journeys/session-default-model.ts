// A session without a model, used by keys and plans that may not use every model.

import t from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { codeOf, startGateway } from '../fixtures/gateway.ts'
import type { Account, InProcess } from '../fixtures/gateway.ts'

t.test('the default model of a session is one that the key and the plan allow', async (t) => {
  const backend = await startBackend(t, chat())
  const target = `targets: [{ url: '${backend.url}' }]`
  const yaml = `
models:
  embedder: { ${target}, endpoints: [embeddings] }
  dear: { ${target} }
  cheap: { ${target} }
  small: { ${target} }
plans: { narrow: { models: [embedder, cheap, small] } }
`
  const gateway = await startGateway(t, { yaml })
  const any = await gateway.account(100_000)
  t.match(await said(gateway, any.key), { model: 'dear' })
  const narrow = await gateway.account(100_000, { plan: 'narrow' })
  t.match(await said(gateway, narrow.key), { model: 'cheap' }, 'the plan')
  const keyFor = async ({ id }: Account, model: string) =>
    (await gateway.keyFor(id, { models: [model] })).key
  t.match(await said(gateway, await keyFor(any, 'small')), { model: 'small' }, 'the key')
  t.match(await said(gateway, await keyFor(narrow, 'small')), { model: 'small' }, 'both')
  const none = await sent(gateway, await keyFor(narrow, 'dear'))
  t.equal(none.status, 403)
  t.equal(await codeOf(none), 'model_not_allowed')
})

t.test('messages that are not a list are refused with their name', async (t) => {
  const backend = await startBackend(t, chat())
  const yaml = `models: { m: { targets: [{ url: '${backend.url}' }] } }`
  const gateway = await startGateway(t, { yaml })
  const { key } = await gateway.account(100_000)
  const path = await messagesPath(gateway, key)
  for (const messages of ['Hi', {}, 5, true]) {
    for (const to of ['/v1/chat/completions', '/v1/chat', path]) {
      const answer = await gateway.call(to, key, { model: 'm', messages })
      const { error } = (await answer.json()) as { error: object }
      t.match({ ...error, status: answer.status }, refused, `${to} ${JSON.stringify(messages)}`)
    }
  }
  t.equal(backend.requests.length, 0)
})

const refused = {
  status: 400,
  code: 'invalid_parameter',
  param: 'messages',
  message: /must be a list/,
}

async function messagesPath(gateway: InProcess, key: string): Promise<string> {
  const created = await gateway.call('/api/chat/sessions', key, {})
  const { id } = (await created.json()) as { id: string }
  return `/api/chat/sessions/${id}/messages`
}

async function sent(gateway: InProcess, key: string): Promise<Response> {
  const path = await messagesPath(gateway, key)
  return await gateway.call(path, key, { content: 'Hi', stream: false })
}

const said = async (gateway: InProcess, key: string) => (await sent(gateway, key)).json()
