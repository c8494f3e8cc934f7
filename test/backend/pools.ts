import t from 'tap'
import type { Config } from '../../src/config/config.ts'
import { keepConnections } from '../../src/backend/pools.ts'
import { startBackend } from '../fixtures/backend.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { until } from '../fixtures/until.ts'

const ask = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }

t.test(
  'a target keeps its connections through a reload, one that has gone loses them',
  async (t) => {
    const [stays, goes] = await Promise.all([startBackend(t), startBackend(t)])
    const model = (id: string, url: string, more = '') =>
      `  ${id}: { targets: [{ url: '${url}' }]${more} }\n`
    const yaml = `models:\n${model('m', stays.url)}${model('n', goes.url)}`
    const { gateway, rewrite, account, call } = await startGateway(t, { yaml })
    const { key } = await account(10_000)
    for (const name of ['m', 'n'])
      await (await call('/v1/chat', key, { ...ask, model: name })).text()
    t.same([stays.connections, goes.connections], [1, 1])
    await rewrite(`models:\n${model('m', stays.url, ', price: { input: 2 }')}`)
    await gateway.reload('test')
    await until(() => goes.open === 0)
    await (await call('/v1/chat', key, ask)).text()
    t.equal(stays.connections, 1)
  },
)

t.test('what no configuration names is closed, without one, too', async (t) => {
  const none: Pick<Config, 'models'> = { models: new Map() }
  t.doesNotThrow(() => keepConnections([none]))
})
