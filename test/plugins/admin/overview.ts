import t from 'tap'
import { startAdmin } from '../../fixtures/admin-listener.ts'

t.test('targets and configuration are shown without their secrets', async (t) => {
  const { call } = await startAdmin(t)
  const { body: targets } = await call('GET targets')
  t.match(targets.data, [
    {
      id: 'm',
      aliases: ['nick'],
      price: { input: 0.07, output: 4 },
      targets: [{ url: 'https://backend.example/v1', model: 'm' }],
    },
  ])
  const { body: config } = await call('GET config')
  t.match(config, { object: 'config', config: { models: { m: { price: { output: 4 } } } } })
  t.notMatch(JSON.stringify([targets, config]), /secret-|test-admin-token/)
})
