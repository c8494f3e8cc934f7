import { join } from 'node:path'
import t from 'tap'
import { crossCheck, warningsOf } from '../../src/config/check.ts'
import { formatPath, formatProblem } from '../../src/config/problem.ts'
import { load } from '../fixtures/config/load.ts'

const faults = (file: unknown) => crossCheck(file).map(({ path }) => formatPath(path))
const demo = { targets: ['demo'] }

t.test('a valid file has no faults', async (t) => {
  t.same(faults({ models: { demo }, plans: { default: { models: ['*', 'demo'] } } }), [])
})

t.test('two listeners must not share a port, but both may take a free one', async (t) => {
  t.same(faults({ listen: 9090 }), ['listen'])
  t.same(faults({ listen: { port: 7000 }, admin: { listen: '[::1]:7000' } }), ['admin.listen'])
  t.same(faults({ admin: { listen: 8080 } }), ['admin.listen'])
  t.same(faults({ listen: { host: 'x' }, admin: { listen: { port: 8080 } } }), ['admin.listen'])
  t.same(faults({ listen: 0, admin: { listen: 0 } }), [])
})

t.test('a name stands for only one model', async (t) => {
  const models = { a: { ...demo, aliases: ['b', 'x'] }, b: { ...demo, aliases: ['x'] } }
  t.same(faults({ models }), ['models.a.aliases[0]', 'models.b.aliases[0]'])
})

t.test('events wait for less time than a backend may be silent', async (t) => {
  const model = (more: object) => ({ models: { m: { ...demo, ...more } } })
  t.same(faults(model({ flush: '1s' })), [])
  t.same(faults(model({ flush: '1s', timeouts: { idle: '1s' } })), ['models.m.timeouts.idle'])
  const short = { timeouts: { idle: '50ms' } }
  t.same(faults({ ...model(short), limits: { flush: '50ms' } }), ['models.m.timeouts.idle'])
  t.same(faults({ ...model({ ...short, flush: '0ms' }), limits: { flush: '50ms' } }), [])
})

t.test('Redis is at one place, and what Sentinels need goes with Sentinels', async (t) => {
  const at = ['h:1']
  t.same(faults({ redis: 'redis://h' }), [])
  t.same(faults({ redis: { cluster: at, password: 'p' } }), [])
  t.same(faults({ redis: { sentinels: at, name: 'main', db: 1, sentinel_password: 'p' } }), [])
  t.same(faults({ redis: { password: 'p' } }), ['redis.url'])
  t.same(faults({ redis: { url: 'redis://h', cluster: at } }), ['redis'])
  t.same(faults({ redis: { sentinels: at, cluster: at } }), ['redis'])
  t.same(faults({ redis: { sentinels: at } }), ['redis.name'])
  t.same(faults({ redis: { cluster: at, db: 0, name: 'main' } }), ['redis.name', 'redis.db'])
  t.same(faults({ redis: { url: 'redis://h', sentinel_username: 'u', sentinel_password: '' } }), [
    'redis.sentinel_username',
    'redis.sentinel_password',
  ])
})

t.test('a single body must fit into the memory of all bodies', async (t) => {
  const names = (count: number) => Array<string>(count).fill('limits.bodies')
  t.same(faults({ limits: { bodies: '128MiB' } }), names(0), 'four times json_v1')
  t.same(faults({ limits: { bodies: '127MiB' } }), names(1))
  const paths = crossCheck({ limits: { bodies: '128MiB' }, workers: 1 }, 4).map(({ path }) => path)
  t.same(
    paths,
    [
      ['limits', 'bodies'],
      ['limits', 'bodies'],
    ],
    'four workers share it until a restart',
  )
  t.same(faults({ limits: { bodies: '79MiB' } }), names(2))
  t.same(faults({ limits: { bodies: '3MiB' } }), names(3))
  t.same(faults({ limits: { json_v1: '1GiB', json_api: '2GiB' } }), [
    'limits.json_v1',
    'limits.json_api',
  ])
  t.same(faults({ limits: { json_v1: '1GiB', bodies: 'nonsense' } }), [])
})

t.test(
  'faults are found even beside invalid values, and an invalid value is not reported a second time',
  async (t) => {
    for (const value of [null, 1, 'x', [], [[]], true, undefined]) {
      t.same(faults(value), [])
      const models = { a: value, b: { targets: value, aliases: [value] }, c: { targets: [value] } }
      t.same(faults({ listen: 9090, admin: value, plans: { p: value }, limits: value, models }), [
        'listen',
      ])
    }
  },
)

const target = 'targets: [{ url: http://127.0.0.1:1/v1 }]'
const yaml = `models:
  small: { ${target}, max_output_tokens: 1999 }
  large: { ${target}, max_output_tokens: 4096 }
  vectors: { ${target}, max_output_tokens: 4096, endpoints: [embeddings] }
plans:
  default: { tokens_per_minute: 4097 }
  narrow: { concurrency: 2, tokens_per_minute: 2000 }
  narrower: { tokens_per_minute: 1999 }
  few: { tokens_per_minute: 2000, models: [small] }
`

t.test('a plan with fewer tokens a minute than its models may generate', async (t) => {
  const file = join(t.testdir({ 'gateway.yaml': yaml }), 'gateway.yaml')
  const loaded = await load(file)
  if ('problems' in loaded) return t.fail(loaded.problems.map(formatProblem).join('\n'))
  const told = loaded.warnings.map((warning) => formatProblem(warning).slice(file.length))
  t.equal(told.length, 2)
  t.match(
    told[0],
    /^:7:48: plans\.narrow\.tokens_per_minute: 2000 is not more than .* of large \(4096\): /,
  )
  t.match(told[1], /^:8:34: plans\.narrower\.\S+ 1999 is .* of small \(1999\), large \(4096\): /)
})

t.test('shadow mode is a warning', async (t) => {
  const nothing = { models: new Map(), plans: new Map(), workers: 1 }
  const toldOf = (metering: object) =>
    warningsOf({ ...nothing, plugins: new Map([['metering', metering]]) })
  t.match(toldOf({ enforce: false }), [
    {
      path: ['plugins', 'metering', 'enforce'],
      message: /^shadow mode: limits and balances refuse/,
    },
  ])
  t.same(toldOf({ enforce: true }), [])
})

t.test('a value that is not in the file is reported at its plan, or at the top', async (t) => {
  const large = `models:\n  m: { ${target}, max_output_tokens: 400000, context_window: 400000 }\n`
  const placesOf = async (text: string) => {
    const loaded = await load(join(t.testdir({ 'gateway.yaml': text }), 'gateway.yaml'))
    if ('problems' in loaded) return t.fail(loaded.problems.map(formatProblem).join('\n'))
    return loaded.warnings.map(({ line, column }) => [line, column])
  }
  t.same(await placesOf(`${large}plans: { default: { concurrency: 1 } }\n`), [[3, 10]])
  t.same(await placesOf(large), [[1, 1]])
})
