import t from 'tap'
import { billingRoutes } from '../../src/openapi/billing-routes.ts'
import { checkOperations } from '../fixtures/operations.ts'

t.test('the operations keep to the rules, and only read', async (t) => {
  checkOperations(t, billingRoutes)
  for (const line of Object.keys(billingRoutes)) t.match(line, /^GET /)
})
