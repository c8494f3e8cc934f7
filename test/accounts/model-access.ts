import t from 'tap'
import type { Model, Plan } from '../../src/config/config.ts'
import { mayUse } from '../../src/accounts/model-access.ts'

const model = { id: 'm' } as Model
const plan = (models: readonly string[]): Plan => ({
  requestsPerMinute: 1,
  tokensPerMinute: 1,
  concurrency: 1,
  models,
  storageBytes: 1,
  unpaidStorageBytes: 1,
})

t.test('a model may be used where key and plan both allow it', async (t) => {
  const plans = new Map([
    ['default', plan(['*'])],
    ['narrow', plan(['other'])],
    ['exact', plan(['m'])],
  ])
  const may = (plan: string, models?: readonly string[]) =>
    mayUse({ plan, ...(models && { models }) }, model, { plans })
  t.equal(may('default', ['*']), true)
  t.equal(may('default', ['m', 'other']), true)
  t.equal(may('exact', ['*']), true)
  t.equal(may('narrow', ['*']), false)
  t.equal(may('default', ['other']), false)
  t.equal(may('default'), false, 'where the models of the key are not known')
  t.equal(may('gone', ['*']), true, 'a plan that is no longer there is the default one')
})
