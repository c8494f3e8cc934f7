import t from 'tap'
import { billingRoutes } from '../../src/openapi/billing-routes.ts'

t.test('the operations only read', async (t) => {
  for (const line of Object.keys(billingRoutes)) t.match(line, /^GET /)
})
