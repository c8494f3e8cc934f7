// What Node's parser lets through and HTTP/1.1 forbids: whatever two servers in a row could read in two ways is
// refused before anything else looks at the request (RFC 9112 §3.2, §6.1).

import type { IncomingMessage } from 'node:http'
import { GatewayError } from '../errors.ts'

/** The refusal of a request whose head is not sound; undefined for a sound one. */
export function unsoundness(req: IncomingMessage): GatewayError | undefined {
  if (req.httpVersionMajor !== 1) return malformed('Speak HTTP/1.1 to this server.')
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

/** `Expect` with anything but 100-continue. */
export function unknownExpectation(): GatewayError {
  return malformed('The Expect header may only be "100-continue".')
}

/** An asked-for tunnel or proxied request. */
export function notAProxy(): GatewayError {
  return malformed('This server is no proxy.')
}

function malformed(message: string): GatewayError {
  return new GatewayError('malformed_request', { message })
}

function isPlainChunked(req: IncomingMessage, coding: string): boolean {
  if (req.httpVersionMinor === 0 || req.headers['content-length'] !== undefined) return false
  return coding.toLowerCase() === 'chunked'
}

/** Node's `headers` keeps the first of several; only the raw list shows them all. */
function count(rawHeaders: readonly string[], lowerName: string): number {
  let found = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? ''
    if (name.length === lowerName.length && name.toLowerCase() === lowerName) found++
  }
  return found
}
