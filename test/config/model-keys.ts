// The keys of a model and a target: their defaults, and what is refused.

import t from 'tap'
import { defaultMaxOutputTokens, models } from '../../src/config/model-keys.ts'

const target = { url: 'http://127.0.0.1:8000/v1' }

t.test('a model needs only one target', async (t) => {
  const { m } = models.parse({ m: { targets: [target] } })
  t.match(m, { targets: [{ url: target.url, weight: 1, priority: 1 }] })
  t.ok(defaultMaxOutputTokens > 0)
})

t.test('impossible values of a model are refused', async (t) => {
  const bad: readonly object[] = [
    { targets: [] },
    {},
    { targets: [{ url: 'ftp://host/v1' }] },
    { targets: [{ ...target, weight: 0 }] },
    { targets: [{ ...target, max_tokens_field: 'tokens' }] },
    { targets: [target], endpoints: ['responses'] },
    { targets: [target], price: { input: -1 } },
    { targets: [target], unknown: 1 },
  ]
  for (const model of bad) t.notOk(models.safeParse({ m: model }).success, JSON.stringify(model))
  t.notOk(models.safeParse({ 'a b': { targets: [target] } }).success, 'a name with a blank')
})
