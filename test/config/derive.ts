import t from 'tap'
import { derive } from '../../src/config/derive.ts'

t.test('cached input costs what input costs, unless it has a price', async (t) => {
  const models = {
    a: { price: { input: '2' } },
    b: { price: { input: '2', cached_input: '1' } },
    c: { price: { output: '3' } },
    d: { cost: { input: '2', output: '4' } },
  }
  t.same(derive({ models }).models, {
    a: { price: { input: '2', cached_input: '2' } },
    b: { price: { input: '2', cached_input: '1' } },
    c: { price: { output: '3' } },
    d: { cost: { input: '2', output: '4', cached_input: '2' } },
  })
})

t.test('the default output fits into the context window', async (t) => {
  const models = { a: { context_window: 2000 }, b: { context_window: 8000 }, c: {} }
  t.match(derive({ models }).models, { a: { max_output_tokens: 2000 } })
  t.same(Object.keys(derive({ models: { b: models.b } }).models as object), ['b'])
  t.same((derive({ models }).models as typeof models).b, { context_window: 8000 })
})

t.test('the workers that run have room for bodies, whatever the file says by now', async (t) => {
  const [one, eight] = [128 * 2 ** 20, 8 * 128 * 2 ** 20]
  t.match(derive({ workers: 8 }), { limits: { bodies: eight } })
  t.match(derive({ workers: 1 }, 8), { limits: { bodies: eight } })
  t.notMatch(derive({ workers: 8 }, 1), { limits: { bodies: eight } })
  t.match(derive({ limits: { bodies: one } }, 8), { limits: { bodies: one } })
})

t.test('the plan `default` always exists, and a configured one stays', async (t) => {
  t.same(derive({}).plans, { default: {} })
  t.same(derive({ plans: { default: { concurrency: 1 }, x: {} } }).plans, {
    default: { concurrency: 1 },
    x: {},
  })
})
