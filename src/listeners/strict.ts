// Refuses what Node's parser lets through and HTTP/1.1 forbids: a request that two servers in a row could read in two
// ways is refused before any other code looks at it (RFC 9112 §3.2, §6.1).

import type { IncomingMessage } from 'node:http'
import type { GatewayError } from '../errors.ts'
import { malformed } from '../http/refusals.ts'

/** The refusal of a request whose head is invalid; undefined when the head is valid. */
export function unsoundness(req: IncomingMessage): GatewayError | undefined {
  if (req.httpVersionMajor !== 1)
    return malformed('The HTTP version is not supported. Use HTTP/1.1.')
  const hosts = count(req.rawHeaders, 'host')
  if (hosts > 1 || (hosts === 0 && req.httpVersionMinor > 0)) {
    return malformed('Send exactly one Host header.')
  }
  const coding = req.headers['transfer-encoding']
  if (coding !== undefined && !isPlainChunked(req, coding)) {
    return malformed(
      'Transfer-Encoding may only be "chunked", in HTTP/1.1, without Content-Length.',
    )
  }
  return undefined
}

function isPlainChunked(req: IncomingMessage, coding: string): boolean {
  if (req.httpVersionMinor === 0 || req.headers['content-length'] !== undefined) return false
  return coding.toLowerCase() === 'chunked'
}

/** Node's `headers` keeps only the first of several equal names; the raw list has them all. */
function count(rawHeaders: readonly string[], lowerName: string): number {
  let found = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? ''
    if (name.length === lowerName.length && name.toLowerCase() === lowerName) found++
  }
  return found
}
