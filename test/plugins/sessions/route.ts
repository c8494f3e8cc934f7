import t from 'tap'
import { answering } from '../../../src/exchange.ts'
import type { Exchange } from '../../../src/exchange.ts'
import type { Gateway } from '../../../src/plugin.ts'
import { idsOf, modelOf, route } from '../../../src/plugins/sessions/route.ts'

const asked = (fields: Partial<Exchange>) => fields as Exchange

t.test('a parameter that is not in the path is no id', async (t) => {
  t.same(idsOf(asked({ params: { id: 's', mid: 'm' } })), { session: 's', message: 'm' })
  t.same(idsOf(asked({ params: {} })), { session: '', message: '' })
})

t.test('a route is below the path of sessions, and reads a body if it is bounded', async (t) => {
  const begin = answering(async () => ({ status: 200, body: '' }))
  const common = { path: '/api/chat/sessions/:id', access: 'sessions', begin }
  t.strictSame(route('GET', '/:id', { begin }), { ...common, method: 'GET', body: 'none' })
  const bounded = { ...common, method: 'PATCH', body: 'json', maxBytes: 5 }
  t.strictSame(route('PATCH', '/:id', { begin, maxBytes: 5 }), bounded)
})

t.test('without a name, the first model that can chat and is allowed', async (t) => {
  const models = [
    { id: 'e', endpoints: ['embeddings'] },
    { id: 'c', endpoints: ['chat'] },
    { id: 'd', endpoints: ['chat'] },
  ]
  const plans = new Map([['p', { models: ['*'] }]])
  const gateway = {
    config: { models: new Map(models.map((model) => [model.id, model])), plans },
    findModel: (name: string) => models.find(({ id }) => id === name),
  } as unknown as Gateway
  const who = (...models: readonly string[]) => ({
    keyId: 'k',
    accountId: 'a',
    plan: 'p',
    models,
  })
  t.equal(modelOf(gateway, undefined, who('*')).id, 'c')
  t.equal(modelOf(gateway, undefined, who('e', 'd')).id, 'd')
  t.equal(modelOf(gateway, undefined, who('e')).id, 'c', 'admission refuses it')
  t.equal(modelOf(gateway, undefined, undefined).id, 'c')
  t.equal(modelOf(gateway, 'c', who('d')).id, 'c')
  t.throws(() => modelOf(gateway, 'e', who('*')), { code: 'model_not_found' })
  t.throws(() => modelOf(gateway, 'x', who('*')), { code: 'model_not_found' })
})
