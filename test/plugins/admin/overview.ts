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

t.test('a reload tells what has changed, and what waits for a restart', async (t) => {
  const { call, rewrite, yaml } = await startAdmin(t)
  t.match(await call('POST reload'), { status: 200, body: { object: 'reload', changes: [] } })
  await rewrite(yaml.replace('key: secret-key', 'key: other-key').replace('output: 4', 'output: 5'))
  const { body } = await call('POST reload')
  t.match(body, {
    changes: [
      { path: 'models.m.price.output', from: 4, to: 5, needs_restart: false },
      { path: 'models.m.targets[0].key', needs_restart: false },
    ],
  })
  t.notMatch(JSON.stringify(body), /-key/)
  const { body: after } = await call('GET config')
  t.match(after, { config: { models: { m: { price: { output: 5 } } } } })
})

t.test('a file with problems is refused with all of them, and changes nothing', async (t) => {
  const { call, rewrite, yaml, file } = await startAdmin(t)
  await rewrite(`${yaml.replace('output: 4', 'output: 5')}drian: 1\nlimits: { heartbeat: soon }\n`)
  const { status, body } = await call('POST reload')
  t.equal(status, 422)
  t.match(body.error, {
    code: 'invalid_configuration',
    problems: [
      { file, line: Number, column: Number, message: /drain/ },
      { file, path: ['limits', 'heartbeat'] },
    ],
  })
  t.match((await call('GET config')).body, { config: { models: { m: { price: { output: 4 } } } } })
})

t.test('marks tell that a secret is another, and not which it is', async (t) => {
  const { call } = await startAdmin(t)
  const { body } = await call('GET config')
  const marks = Object.values((body as unknown as { marks: Record<string, string> }).marks)
  t.ok(marks.length > 0)
  for (const mark of marks) t.match(mark, /^[0-9a-f]{4}$/)
})
