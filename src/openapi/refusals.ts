// Which codes a route may refuse with: its own, and those that any route of its kind may have. docs/api.md lists the
// latter once, under "Order of refusals"; the OpenAPI document has them with each operation.

import { errorTable } from '../error-table.ts'
import type { ErrorCode } from '../errors.ts'
import type { Codes, Operation } from './operation.ts'

const ofAll: readonly ErrorCode[] = [
  'malformed_request',
  'route_not_found',
  'method_not_allowed',
  'request_timeout',
  'headers_too_large',
  'internal_error',
  'overloaded',
  'server_draining',
]

const ofKeys: readonly ErrorCode[] = [
  'invalid_parameter',
  'missing_parameter',
  'unknown_parameter',
  'missing_api_key',
  'invalid_api_key',
  'api_key_revoked',
  'api_key_expired',
  'account_suspended',
  'rate_limit_exceeded',
  'ledger_unavailable',
]

const ofCookies: readonly ErrorCode[] = [
  'invalid_parameter',
  'missing_parameter',
  'unknown_parameter',
  'not_logged_in',
  'account_suspended',
  'origin_not_allowed',
  'rate_limit_exceeded',
  'ledger_unavailable',
]

const ofBodies: readonly ErrorCode[] = ['invalid_json', 'body_too_large', 'unsupported_media_type']

const ofRepetition: readonly ErrorCode[] = ['idempotency_in_progress', 'idempotency_key_reused']

/** By status, in the order of the table; each code with its note. */
export type Refusals = ReadonlyMap<number, readonly (readonly [ErrorCode, string])[]>

/** All that the route may refuse with. */
export function refusalsOf({ access, body, repeats, codes = {} }: Operation): Refusals {
  const needsCookie = access === 'cookie'
  const needsKey = access !== 'anybody' && !needsCookie
  const shared = [
    ...ofAll,
    ...(needsKey ? ofKeys : []),
    ...(needsCookie ? ofCookies : []),
    ...(needsKey && access !== 'any-key' ? (['insufficient_scope'] as const) : []),
    ...(body ? ofBodies : []),
    ...(repeats ? ofRepetition : []),
  ]
  return byStatus({ ...Object.fromEntries(shared.map((code) => [code, ''])), ...codes })
}

/** Groups codes by the status that error-table.ts has for each. */
export function byStatus(codes: Codes): Refusals {
  const known = (Object.keys(errorTable) as ErrorCode[]).filter((code) => codes[code] !== undefined)
  const named = known.map((code) => [code, codes[code] ?? ''] as const)
  return Map.groupBy(named, ([code]) => errorTable[code].status)
}
