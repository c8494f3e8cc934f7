import t from 'tap'
import type { List as Page } from '../../src/http/page.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { pick } from '../fixtures/pick.ts'

const target = "{ targets: [{ url: 'http://127.0.0.1:1/v1' }] }"
const yaml = `
models:
  small: ${target.replace('{', '{ aliases: [tiny],')}
  large: ${target}
  org/large-2: ${target}
plans:
  default: { models: ['*'] }
  cheap: { models: [small, org/large-2] }
`

const dear = await startGateway(t, {
  yaml: `
models:
  dear:
    aliases: [nick]
    targets: [{ url: 'http://127.0.0.1:1/v1' }]
    price: { input: 0.07, output: 4, cached_input: 0.035, request: 12 }
    context_window: 32768
    max_output_tokens: 2048
    accepts: [text, image]
    endpoints: [chat, embeddings]
  free: { targets: [{ url: 'http://127.0.0.1:1/v1' }], price: { input: 0, output: 0 } }
`,
})

type List = Page<{ readonly id: string }>

t.test('lists ids and aliases in the shape that SDKs expect', async (t) => {
  const gateway = await startGateway(t, { yaml })
  const { key } = await gateway.account(0)
  const list = (await (await gateway.call('/v1/models', key)).json()) as List
  t.equal(list.object, 'list')
  t.same(pick(list.data, 'id'), ['small', 'tiny', 'large', 'org/large-2'])
  for (const model of list.data)
    t.match(model, { object: 'model', created: Number, owned_by: String })
})

t.test('it lists what plan and key both allow, and nothing else', async (t) => {
  const gateway = await startGateway(t, { yaml })
  const { id, key } = await gateway.account(0, { plan: 'cheap' })
  const { key: narrow } = await gateway.keyFor(id, { models: ['tiny', 'large'] })
  const idsFor = async (key: string) =>
    ((await (await gateway.call('/v1/models', key)).json()) as List).data.map(({ id }) => id)
  t.same(await idsFor(key), ['small', 'tiny', 'org/large-2'])
  t.same(await idsFor(narrow), ['small', 'tiny'])
  for (const [name, status] of [
    ['small', 200],
    ['tiny', 200],
    ['large', 404],
    ['org/large-2', 404],
  ] as const) {
    t.equal((await gateway.call(`/v1/models/${name}`, narrow)).status, status, name)
  }
})

t.test('one model is found by an id with a slash, escaped or not', async (t) => {
  const gateway = await startGateway(t, { yaml })
  const { key } = await gateway.account(0)
  for (const written of ['org/large-2', 'org%2Flarge-2']) {
    const answer = await gateway.call(`/v1/models/${written}`, key)
    t.match(await answer.json(), { id: 'org/large-2', object: 'model' }, written)
  }
  const unknown = await gateway.call('/v1/models/none', key)
  t.equal(unknown.status, 404)
  t.match(await unknown.json(), { error: { code: 'model_not_found' } })
})

t.test('each name says what it costs, takes and gives', async (t) => {
  const { key } = await dear.account(0)
  const told = {
    price: { input: 0.07, output: 4, cached_input: 0.035, request: 12 },
    context_window: 32_768,
    max_output_tokens: 2048,
    accepts: ['text', 'image'],
    endpoints: ['chat', 'embeddings'],
  }
  const list = (await (await dear.call('/v1/models', key)).json()) as List
  t.match(list.data, [
    { id: 'dear', ...told },
    { id: 'nick', ...told },
    { id: 'free', price: { input: 0, output: 0, cached_input: 0, request: 0 } },
  ])
  t.match(await (await dear.call('/v1/models/nick', key)).json(), { id: 'nick', ...told })
})

t.test('it requires a key', async (t) => {
  const gateway = await startGateway(t, { yaml })
  for (const path of ['/v1/models', '/v1/models/small', '/v1/models/none']) {
    const answer = await fetch(gateway.url + path)
    t.match(await answer.json(), { error: { code: 'missing_api_key' } }, path)
  }
})
