import t from 'tap'
import { docsRoutes } from '../../src/openapi/docs-routes.ts'
import { codesOf } from '../fixtures/operations.ts'

t.test('they need no key, so no refusal is about one', async (t) => {
  for (const [line, operation] of Object.entries(docsRoutes)) {
    t.equal(operation.access, 'anybody', line)
    t.notOk(codesOf(operation).has('invalid_api_key'), line)
  }
})
