// Reads a JSON request body whole: bounded in size, in time, and together with all other bodies in flight.
// More than 64 KiB is read only for a caller that `vouch` lets through. What the bytes mean is json-scan.ts's matter.

import type { IncomingMessage } from 'node:http'
import { GatewayError } from '../errors.ts'

/** What anybody may send before Redis was asked who they are. */
export const unvouchedBytes = 64 * 1024

export interface BodyOptions {
  readonly maxBytes: number
  /** For the whole body. */
  readonly timeoutMs: number
  /** Awaited once before more than 64 KiB is read. Throws to refuse. */
  vouch(): Promise<void>
  readonly claim: BodyClaim
}

/** One exchange's share of the memory for bodies. */
export interface BodyClaim {
  /** Throws `overloaded` when all bodies together would be too large. */
  take(bytes: number): void
  /** To be called when the exchange is over; harmless when called again. */
  release(): void
}

export interface BodyBudget {
  claim(): BodyClaim
  readonly usedBytes: number
}

/** The client closed before its request was whole: there is nobody to answer. */
export class ClientLeft extends Error {
  override readonly name = 'ClientLeft'
}

/** Bodies up to 64 KiB are not counted: else strangers who send them slowly could keep customers out. */
export function createBodyBudget(maxBytes: number): BodyBudget {
  let usedBytes = 0
  return {
    get usedBytes() {
      return usedBytes
    },
    claim() {
      let taken = 0
      let released = false
      return {
        take(bytes) {
          // A client may leave while it is being vouched for.
          if (released) return
          if (usedBytes + bytes > maxBytes) throw new GatewayError('overloaded')
          usedBytes += bytes
          taken += bytes
        },
        release() {
          usedBytes -= taken
          taken = 0
          released = true
        },
      }
    },
  }
}

const nothing = Buffer.alloc(0)

/** An empty body is the route's to judge. Refusals leave the request unread: reply.ts lets the client finish. */
export async function readJsonBody(req: IncomingMessage, options: BodyOptions): Promise<Buffer> {
  const length = req.headers['content-length']
  const chunked = req.headers['transfer-encoding'] !== undefined
  if (!chunked && (length === undefined || length === '0')) return nothing
  const expected = chunked ? undefined : Number(length)
  if (expected !== undefined && expected > options.maxBytes) throw tooLarge(options.maxBytes)
  refuseOtherTypes(req)
  if (expected !== undefined && expected > unvouchedBytes) {
    await options.vouch()
    options.claim.take(expected)
  }
  continueIfAsked(req)
  return expected === undefined ? readChunked(req, options) : readSized(req, expected, options)
}

function tooLarge(maxBytes: number): GatewayError {
  return new GatewayError('body_too_large', {
    message: `The body is larger than this route accepts: ${maxBytes} bytes.`,
  })
}

function refuseOtherTypes({ headers }: IncomingMessage): void {
  const type = headers['content-type']
  // The exact spelling of most clients first: the expression costs more.
  if (type !== 'application/json' && !isJsonType(type)) {
    throw new GatewayError('unsupported_media_type')
  }
  const coding = headers['content-encoding']
  if (coding !== undefined && coding.toLowerCase() !== 'identity') {
    throw new GatewayError('unsupported_media_type', {
      message: 'Send the body without Content-Encoding.',
    })
  }
}

function isJsonType(type: string | undefined): boolean {
  const match = /^\s*application\/json\s*(;.*)?$/i.exec(type ?? '')
  if (!match) return false
  const charset = /;\s*charset\s*=\s*"?([^\s;"]*)/i.exec(match[1] ?? '')?.[1]
  return charset === undefined || /^utf-?8$/i.test(charset)
}

const awaitingContinue = new WeakMap<IncomingMessage, () => void>()

/** For server.ts: `100 Continue` is sent when the body is wanted, not before. */
export function onBodyWanted(req: IncomingMessage, sendContinue: () => void): void {
  awaitingContinue.set(req, sendContinue)
}

/** Before the first byte of a body is read. */
export function continueIfAsked(req: IncomingMessage): void {
  if (req.headers.expect !== undefined) awaitingContinue.get(req)?.()
}

/** Takes bytes as they come. Returns true when the body is whole. */
type Take = (chunk: Buffer) => boolean | Promise<void>

function readSized(req: IncomingMessage, expected: number, options: BodyOptions): Promise<Buffer> {
  let body: Buffer | undefined
  let received = 0
  const take = (chunk: Buffer) => {
    // Most bodies come in one piece: no copy.
    if (!body && chunk.length === expected) body = chunk
    else {
      body ??= Buffer.allocUnsafeSlow(expected)
      body.set(chunk, received)
    }
    received += chunk.length
    // Known to be whole a little before `req.complete`; by a long one that tells reply.ts what is still to come.
    return received === expected && expected <= unvouchedBytes
  }
  return receive(req, { timeoutMs: options.timeoutMs, take, whole: () => body ?? nothing })
}

function readChunked(req: IncomingMessage, options: BodyOptions): Promise<Buffer> {
  const { maxBytes, claim, timeoutMs } = options
  let body = nothing
  let received = 0
  // Copied, not collected: a chunk of one byte costs a hundred as an object.
  const keep = (chunk: Buffer, before: number) => {
    if (received > body.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(received, Math.min(2 * body.length, maxBytes)))
      body.copy(larger, 0, 0, before)
      body = larger
    }
    chunk.copy(body, before)
  }
  let vouched = false
  const take = (chunk: Buffer) => {
    const before = received
    received += chunk.length
    if (received > maxBytes) throw tooLarge(maxBytes)
    keep(chunk, before)
    if (received <= unvouchedBytes) return false
    if (vouched) {
      claim.take(received - before)
      return false
    }
    vouched = true
    return options.vouch().then(() => claim.take(received))
  }
  return receive(req, { timeoutMs, take, whole: () => body.subarray(0, received) })
}

interface Receiver {
  readonly timeoutMs: number
  readonly take: Take
  readonly whole: () => Buffer
}

/** The one loop of a body; it ends by: whole, end of chunks, refusal, time-out, client gone. */
function receive(req: IncomingMessage, { timeoutMs, take, whole }: Receiver): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const settle = () => {
    clearTimeout(timer)
    req.off('data', onData).off('end', onEnd).off('close', onClose)
  }
  const refuse = (error: unknown) => {
    settle()
    req.pause()
    reject(error)
  }
  const onEnd = () => {
    settle()
    resolve(whole())
  }
  const onClose = () => refuse(new ClientLeft('the client left within its request'))
  const onData = (chunk: Buffer) => {
    try {
      const taken = take(chunk)
      if (taken === true) return onEnd()
      if (taken === false) return
      req.pause()
      taken.then(() => req.resume(), refuse)
    } catch (error) {
      refuse(error)
    }
  }
  const timer = setTimeout(() => refuse(new GatewayError('request_timeout')), timeoutMs)
  if (req.destroyed) refuse(new ClientLeft('the client left before its body was read'))
  else req.on('data', onData).on('end', onEnd).on('close', onClose)
  return promise
}
