// Keeps the prefix caches of accounts apart: vLLM and SGLang share cached prompts only between requests of one salt.

import { createHmac } from 'node:crypto'
import type { Target } from '../config/config.ts'

/**
 * The same for all requests of an account, on every gateway; nobody can tell the account from it. Keyed with the
 * credential of the target, the one secret that gateway and backend have in common.
 */
export function cacheSaltOf({ key = '' }: Pick<Target, 'key'>, ref: string): string {
  return createHmac('sha256', key).update(`cache_salt:${ref}`).digest('base64url')
}
