// Describes an error for the runner, by the public fields of its class only.

import { APIError, TollgateError } from '../src/tollgate.ts'
import type { Json } from './steps.ts'

export function errorOf(error: unknown): Json {
  const told = {
    class: error instanceof TollgateError ? error.name : `not one of ours: ${String(error)}`,
    message: error instanceof Error ? error.message : String(error),
    text: error instanceof Error ? error.message : String(error),
    partial_text: error instanceof TollgateError ? error.partialText : null,
    status: null,
    code: null,
    type: null,
    param: null,
    request_id: null,
    retry_after: null,
  }
  if (!(error instanceof APIError)) return told
  return {
    ...told,
    message: error.detail,
    status: error.status,
    code: error.code,
    type: error.type,
    param: error.param,
    request_id: error.requestId,
    retry_after: error.retryAfter,
  }
}
