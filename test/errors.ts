// The error that carries a row of the table of refusals.

import t from 'tap'
import { errorTable } from '../src/error-table.ts'
import { GatewayError, asGatewayError, errorBody, messageOf } from '../src/errors.ts'

t.test('of several failures all messages are told, the first one first', (t) => {
  const both = new SuppressedError(new Error('second'), new Error('first'))
  t.equal(messageOf(new SuppressedError('third', both)), 'first; second; third')
  t.equal(messageOf(new AggregateError([new Error('::1'), '127.0.0.1'])), '::1; 127.0.0.1')
  t.end()
})

t.test('an error has the status, type and message of its code', async (t) => {
  const error = new GatewayError('insufficient_balance')
  t.match(error, { status: 402, type: 'billing_error', retry: false, source: 'client' })
  t.equal(error.message, errorTable.insufficient_balance.message)
})

t.test('details have priority over the table, and the cause stays for the log', async (t) => {
  const cause = new Error('why')
  const error = new GatewayError('insufficient_balance', {
    isConflict: true,
    message: 'Less.',
    cause,
  })
  t.match(error, {
    status: 409,
    type: 'conflict_error',
    message: 'Less.',
    code: 'insufficient_balance',
  })
  t.equal(error.cause, cause)
})

t.test('every 503 and a running first try say when to come back', async (t) => {
  const running = 'idempotency_in_progress'
  for (const [code, { status }] of Object.entries(errorTable)) {
    const { retryAfterMs } = new GatewayError(code as keyof typeof errorTable)
    t.equal(retryAfterMs, status === 503 || code === running ? 1000 : undefined, code)
  }
})

t.test('an unexpected error reveals nothing to a client', async (t) => {
  const error = asGatewayError(new Error('connect 10.0.0.7:6379 with s3cret'))
  t.equal(error.code, 'internal_error')
  t.notMatch(errorBody(error, 'req_1'), /10\.0\.0\.7|s3cret/)
  const own = new GatewayError('session_busy')
  t.equal(asGatewayError(own), own, 'and never wraps twice')
})

t.test('the body has the shape that SDKs read', async (t) => {
  const body: unknown = JSON.parse(
    errorBody(new GatewayError('missing_parameter', { param: 'n' }), 'req_1'),
  )
  const { message } = errorTable.missing_parameter
  const error = { message, type: 'invalid_request_error', param: 'n', code: 'missing_parameter' }
  t.same(body, { error, request_id: 'req_1' })
})
