// Refusals of what a client wrote in a body or a query, each with the path of the value at fault.

import { GatewayError } from '../errors.ts'

/** `what` follows the value's path in the message: 'must be a string'. */
export function invalid(param: string, what: string): GatewayError {
  return invalidParameter(param, `"${param}" ${what}.`)
}

/** `message` is a whole sentence. */
export function invalidParameter(param: string, message: string): GatewayError {
  return new GatewayError('invalid_parameter', { param, message })
}

export function missing(param: string): GatewayError {
  return new GatewayError('missing_parameter', { param, message: `"${param}" is required.` })
}

export function unknown(param: string): GatewayError {
  const message = `"${param}" is not known here. Remove it.`
  return new GatewayError('unknown_parameter', { param, message })
}

/** Refuses unknown query parameters: if a misspelt filter were ignored, the answer would have all rows. Not under `/v1`, where OpenAI's SDKs send parameters of their own. */
export function refuseStrangeQuery(
  query: URLSearchParams,
  { path, query: known = [] }: { readonly path: string; readonly query?: readonly string[] },
): void {
  if (query.size === 0 || !strict.test(path)) return
  for (const name of query.keys()) if (!known.includes(name)) throw unknown(name)
}

const strict = /^\/(?:account\/)?(?:api|admin)\//

/** For what is no sound request in HTTP. */
export function malformed(message: string): GatewayError {
  return new GatewayError('malformed_request', { message })
}

/** What is wrong with the body as a whole. */
export function invalidJson(message: string): GatewayError {
  return new GatewayError('invalid_json', { message })
}

export function brokenJson(at: number): GatewayError {
  return invalidJson(`The body is not valid JSON at byte ${at}.`)
}

/** `known` must also have the keys that are accepted and then dropped. */
export function refuseUnknownKeys(
  value: object,
  { known, at }: { readonly known: ReadonlySet<string>; readonly at: string },
): void {
  for (const key of Object.keys(value)) if (!known.has(key)) throw unknown(`${at}.${key}`)
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
