// src/plugin-api.ts: an operator's plugin has what it needs, and the gateway recognises its errors.

import { readFile, writeFile } from 'node:fs/promises'
import t from 'tap'
import { importPlugin } from '../src/config/own-plugin.ts'
import { GatewayError } from '../src/errors.ts'
import { startGateway } from './fixtures/gateway.ts'
import { tempDir } from './fixtures/temp-dir.ts'

const text = `
import { GatewayError, answering, z } from 'tollgate/plugin'
export const plugin = {
  name: 'mine',
  schema: z.strictObject({ word: z.string() }),
  setup: () => ({
    routes: [
      { method: 'GET', path: '/api/mine', access: 'anybody', body: 'none', begin: answering(async () => {
        throw new GatewayError('model_not_found')
      }) },
    ],
  }),
}
`

t.test(
  'a plugin in a folder that knows nothing of the gateway imports tollgate/plugin',
  async (t) => {
    // Outside this package, because inside it the name would be found.
    const dir = await tempDir(t)
    await writeFile(`${dir}/mine.mjs`, text)
    const { schema, setup } = await importPlugin(`${dir}/mine.mjs`)
    t.throws(() => schema.parse({ words: 1 }))
    const { routes = [] } = await setup(Object({}), {})
    const [route] = routes
    if (!route) throw new Error('no route')
    const refused = new GatewayError('model_not_found')
    await t.rejects(route.begin(Object({})).serve(Object({})), refused)
  },
)

t.test('the route with a body in docs/plugins.md names the field at fault', async (t) => {
  const page = await readFile(new URL('../docs/plugins.md', import.meta.url), 'utf8')
  const code = page.split('## A route that reads a body')[1]?.match(/^```ts\n(.*?)^```$/ms)?.[1]
  const dir = await tempDir(t)
  await writeFile(`${dir}/votes.ts`, code ?? '')
  const ownPlugins = [await importPlugin(`${dir}/votes.ts`)]
  const gateway = await startGateway(t, { ownPlugins, yaml: 'models: { m: { targets: [demo] } }' })
  const { key } = await gateway.account(0)
  const vote = async (model: string, body: unknown) =>
    (await gateway.call(`/v1/votes/${model}`, key, body)).json()
  t.same(await vote('m', { vote: 'up' }), { model: 'm', votes: 1 })
  t.same(await vote('m', { vote: 'down' }), { model: 'm', votes: 0 })
  t.match(await vote('m', {}), { error: { code: 'missing_parameter', param: 'vote' } })
  t.match(await vote('m', { vote: 1 }), { error: { code: 'invalid_parameter', param: 'vote' } })
  t.match(await vote('m', { vot: 'up' }), { error: { code: 'unknown_parameter', param: 'vot' } })
  t.match(await vote('m', ['up']), { error: { code: 'invalid_json' } })
  t.match(await vote('n', { vote: 'up' }), { error: { code: 'model_not_found' } })
})

t.test('the plugin with a route in docs/plugins.md answers as it stands there', async (t) => {
  const page = await readFile(new URL('../docs/plugins.md', import.meta.url), 'utf8')
  const code = page.split('## A plugin with a route')[1]?.match(/^```ts\n(.*?)^```$/ms)?.[1] ?? ''
  const dir = await tempDir(t)
  await writeFile(`${dir}/greet.ts`, code)
  const ownPlugins = [await importPlugin(`${dir}/greet.ts`)]
  const yaml = 'models: { m: { targets: [demo] } }'
  const gateway = await startGateway(t, { ownPlugins, yaml })
  const { id, key } = await gateway.account(0)
  const answer = await gateway.call('/v1/greet', key)
  t.same(await answer.json(), { greeting: 'Hello', account: id })
  const stranger = await fetch(`${gateway.url}/v1/greet`)
  t.match(await stranger.json(), { error: { code: 'missing_api_key' } })
})
