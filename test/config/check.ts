import t from 'tap'
import { crossCheck } from '../../src/config/check.ts'
import { formatPath } from '../../src/config/problem.ts'

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

t.test('a single body must fit into the memory of all bodies', async (t) => {
  const names = (count: number) => Array<string>(count).fill('limits.bodies')
  t.same(faults({ limits: { bodies: '128MiB' } }), names(0), 'four times json_v1')
  t.same(faults({ limits: { bodies: '127MiB' } }), names(1))
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
