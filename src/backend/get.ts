// A GET to a target, to ask how it is: with the headers and the credential of a request, on a connection of its own
// that closes with the answer. Redirects are not followed. forward.ts can't do it, because http-proxy-3 is set up for
// POST there.

import type { IncomingMessage } from 'node:http'
import { http } from '../node-http.ts'
import type { Target } from '../config/config.ts'
import { openConnections } from './connections.ts'
import { ownHeaders } from './request-headers.ts'

export interface GetOptions {
  readonly url: URL
  readonly connectMs: number
  readonly signal: AbortSignal
}

/** Rejects with Node's error, or the signal's reason. The answer has to be read to its end or destroyed. */
export function getFrom(
  target: Target,
  { url, connectMs, signal }: GetOptions,
): Promise<IncomingMessage> {
  const agent = openConnections({ url, ca: target.ca, connectMs }).fresh()
  const headers = { ...ownHeaders(target, url), accept: 'application/json', connection: 'close' }
  return new Promise((resolve, reject) => {
    const req = http.request(url, { agent, headers, signal, auth: null })
    req.once('response', resolve)
    req.on('error', reject)
    // An upgrade that nobody asked for closes the request without an error and without an answer.
    req.once('close', () => reject(new Error('closed without an answer')))
    req.end()
  })
}
