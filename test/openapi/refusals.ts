import t from 'tap'
import { json } from '../../src/openapi/operation.ts'
import type { Operation } from '../../src/openapi/operation.ts'
import { byStatus, refusalsOf } from '../../src/openapi/refusals.ts'
import { codesOf } from '../fixtures/operations.ts'

const plain: Operation = {
  id: 'x',
  title: 'X',
  access: 'anybody',
  replies: { 200: { says: '', content: json({}) } },
}

t.test('a route without a key, a body or repetition refuses nothing about them', async (t) => {
  const codes = codesOf(plain)
  for (const code of [
    'missing_api_key',
    'invalid_json',
    'idempotency_key_reused',
    'insufficient_scope',
  ])
    t.notOk(codes.has(code), code)
  t.ok(codes.has('route_not_found'))
})

t.test('a key may be wrong, a scope may be missing, a body may be broken', async (t) => {
  t.ok(codesOf({ ...plain, access: 'any-key' }).has('api_key_revoked'))
  t.notOk(codesOf({ ...plain, access: 'any-key' }).has('insufficient_scope'))
  t.ok(codesOf({ ...plain, access: 'chat' }).has('insufficient_scope'))
  t.ok(codesOf({ ...plain, body: { kind: 'json', schema: {} } }).has('invalid_json'))
  t.ok(codesOf({ ...plain, repeats: true }).has('idempotency_in_progress'))
})

t.test("a route's own codes come with their notes, by status", async (t) => {
  const codes = { session_busy: ', so wait', session_not_found: '' } as const
  t.strictSame(
    [...byStatus(codes)],
    [
      [404, [['session_not_found', '']]],
      [409, [['session_busy', ', so wait']]],
    ],
  )
  t.match(refusalsOf({ ...plain, codes }).get(409), [['session_busy', ', so wait']])
})
