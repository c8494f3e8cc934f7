import t from 'tap'
import { changesBetween, formatChange, withoutRestart } from '../../src/config/diff.ts'
import { formatPath } from '../../src/config/problem.ts'

const shown = (effective: unknown, marks: Readonly<Record<string, string>> = {}) => ({
  effective,
  marks,
})

function told(from: ReturnType<typeof shown>, to: ReturnType<typeof shown>) {
  return changesBetween(from, to).map((change) => [
    formatPath(change.path),
    change.from,
    change.to,
    change.needsRestart,
  ])
}

t.test('each key that differs is told, with both values, at its own path', async (t) => {
  const from = {
    models: { a: { price: { input: 1 }, targets: [{ url: 'u', weight: 1 }] } },
    drain: '30s',
  }
  const to = {
    models: { a: { price: { input: 2 }, targets: [{ url: 'u', weight: 1 }, { url: 'v' }] }, b: {} },
  }
  t.same(told(shown(from), shown(to)), [
    ['models.a.price.input', 1, 2, false],
    ['models.a.targets[1]', undefined, { url: 'v' }, false],
    ['models.b', undefined, {}, false],
    ['drain', '30s', undefined, false],
  ])
  t.same(told(shown(to), shown(to)), [])
  t.same(told(shown({ a: ['x', 'y'] }), shown({ a: ['x'] })), [['a', ['x', 'y'], ['x'], false]])
})

t.test('a secret that differs is told, without a value', async (t) => {
  const from = shown({ m: { key: '****' } }, { '["m","key"]': 'aaaa1111' })
  const to = shown({ m: { key: '****' } }, { '["m","key"]': 'bbbb2222' })
  t.same(told(from, to), [['m.key', '****', '****', false]])
  t.same(told(from, shown(to.effective, { '["m","key"]': 'aaaa' })), [], 'a short mark will do')
  t.same(told(from, shown(to.effective)), [], 'no mark tells nothing')
  t.same(
    told(from, shown({})),
    [['m', { key: '****' }, undefined, false]],
    'it has gone: told once',
  )
})

t.test('a short listen is the same as its block', async (t) => {
  const block = { host: '0.0.0.0', port: 8080, trusted_proxies: [] }
  t.same(told(shown({ listen: 8080 }), shown({ listen: block })), [])
  t.same(told(shown({ listen: 8080 }), shown({ listen: 8081 })), [
    ['listen.port', 8080, 8081, true],
  ])
})

t.test('what runs after a reload has the old values where a restart is needed', async (t) => {
  const from = shown(
    { listen: 1, redis: { url: 'a', password: '*' }, drain: '1s' },
    { '["redis","password"]': 'p' },
  )
  const to = shown(
    { listen: 2, redis: { url: 'b', password: '*' }, drain: '2s' },
    { '["redis","password"]': 'q' },
  )
  const { effective, marks } = withoutRestart(from, to)
  t.match(effective, { listen: { port: 1 }, redis: { url: 'a' }, drain: '2s' })
  t.same(marks, from.marks)
  t.equal(
    changesBetween(shown(effective, marks), to).every((one) => one.needsRestart),
    true,
  )
  t.same(withoutRestart(from, shown({ store: 'disk' })).effective, {
    redis: { url: 'a', password: '*' },
  })
})

t.test('a change is a line: both values where they are short', async (t) => {
  t.equal(formatChange({ path: 'a.b', from: 1, to: '2s' }), 'a.b: 1 → "2s"')
  t.equal(formatChange({ path: 'a', from: undefined, to: true }), 'a: added, true')
  t.equal(formatChange({ path: 'a', to: 'x'.repeat(200) }), 'a: added')
  t.equal(formatChange({ path: 'a', from: 1 }), 'a: removed')
  t.equal(formatChange({ path: 'a', from: 'x'.repeat(200), to: 1 }), 'a: changed')
  t.equal(formatChange({ path: 'key', from: '***', to: '***' }), 'key: changed, and is not shown')
})
