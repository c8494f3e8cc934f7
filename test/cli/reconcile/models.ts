import t from 'tap'
import { modelsOf } from '../../../src/cli/reconcile/models.ts'

const model = (id: string, targets: readonly string[], aliases: readonly string[] = []) => ({
  id,
  aliases,
  targets: targets.map((name) => ({ model: name })),
})

t.test("a backend's names lead to the gateway's models", async (t) => {
  const models = modelsOf([model('fast', ['org/fast-8b'], ['quick'])], { 'fast-8b-2026': 'quick' })
  for (const name of ['org/fast-8b', 'fast', 'quick', 'fast-8b-2026']) {
    t.equal(models.ofBackend(name), 'fast', name)
  }
  t.equal(models.ofBackend('other'), 'other')
  t.equal(models.isKnown('fast'), true)
  t.equal(models.isKnown('other'), false)
  t.equal(models.ofGateway('gone'), 'gone')
})

t.test('models that a backend counts under one name are compared together', async (t) => {
  const models = modelsOf([
    model('a', ['x']),
    model('b', ['y', 'x']),
    model('c', ['y']),
    model('d', ['z']),
  ])
  t.equal(models.ofBackend('x'), 'a, b, c')
  t.equal(models.ofBackend('y'), 'a, b, c')
  for (const id of ['a', 'b', 'c']) t.equal(models.ofGateway(id), 'a, b, c')
  t.equal(models.isKnown('a, b, c'), true)
  t.equal(models.ofBackend('z'), 'd')
})

t.test("a target's name comes before the same name of another model of the gateway", async (t) => {
  const models = modelsOf([model('small', ['large']), model('large', ['huge'])])
  t.equal(models.ofBackend('large'), 'small')
  t.equal(models.ofGateway('large'), 'large')
})
