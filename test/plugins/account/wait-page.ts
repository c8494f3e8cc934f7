import t from 'tap'
import { GatewayError } from '../../../src/errors.ts'
import { waitPage } from '../../../src/plugins/account/wait-page.ts'

t.test('says how long to wait, to people and to programs', async (t) => {
  const error = new GatewayError('rate_limit_exceeded', { retryAfterMs: 1001 })
  const page = waitPage(error)
  t.match(page, {
    status: 429,
    headers: { 'Retry-After': '2', 'retry-after-ms': '1001', 'Cache-Control': 'no-store' },
    body: /Wait 2 seconds, then/,
  })
  t.match(waitPage(new GatewayError('overloaded')), {
    status: 503,
    headers: { 'Retry-After': '1', 'retry-after-ms': '1000' },
    body: /Wait a second, then/,
  })
})
