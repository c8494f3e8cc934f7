// What every answer under /account says to a browser: which code may run, who may embed or open the page, and that
// nothing is guessed. The policy allows no inline code, no other host and no frame.

import type { Exchange } from '../../exchange.ts'

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'self'",
].join('; ')

const headers: Readonly<Record<string, string>> = {
  'Content-Security-Policy': policy,
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
}

/** Refusals have them, too. */
export function protect({ replyHeaders }: Pick<Exchange, 'replyHeaders'>): void {
  Object.assign(replyHeaders, headers)
}
