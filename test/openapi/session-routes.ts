import t from 'tap'
import { sessionRoutes } from '../../src/openapi/session-routes.ts'
import { codesOf } from '../fixtures/operations.ts'

t.test('whoever names a session may name one that is not there', async (t) => {
  for (const [line, operation] of Object.entries(sessionRoutes)) {
    t.equal(codesOf(operation).has('session_not_found'), line.includes(':id'), line)
    if (line.includes(':mid')) t.ok(codesOf(operation).has('message_not_found'), line)
  }
})
