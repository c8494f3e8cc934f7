// Reads a JSON request body whole: bounded in size, in time, in pace, and together with all other bodies in flight, of
// which each account has a share. More than 4 KiB is read only for a caller that `vouch` lets through. What the bytes mean
// is json-scan.ts's matter.

import type { IncomingMessage } from 'node:http'
import { discard, free } from '../sharing/discard.ts'
import { GatewayError } from '../errors.ts'
import { SharedPool } from '../sharing/shared-pool.ts'
import { smallBytes } from './json/scan.ts'

export interface BodyOptions {
  readonly maxBytes: number
  /** For the whole body. */
  readonly timeoutMs: number
  /** A body that holds memory comes as fast as this on average, once it had some seconds to begin. */
  readonly bytesPerSecond: number
  /** Before this nobody is slow. */
  readonly patienceMs?: number
  /** Awaited once before more than 4 KiB is read. Throws to refuse. */
  vouch(): Promise<void>
  readonly claim: BodyClaim
}

/** One exchange's part of the memory for bodies. */
export interface BodyClaim {
  /** Throws `overloaded` when all bodies, or those of the account, would be too large. */
  take(bytes: number): void
  /** So much of it is in memory still, and no more. */
  keep(bytes: number): void
  /** Nothing of it is in memory any more; nothing can be taken afterwards. Harmless when called again. */
  release(): void
}

export interface BodyBudget {
  /** `refOf` is asked when something is taken: whose body it is turns out later. */
  claim(refOf: () => string): BodyClaim
  readonly usedBytes: number
}

/** The client closed before its request was whole: there is nobody to answer. */
export class ClientLeft extends Error {
  override readonly name = 'ClientLeft'
}

/** Bodies up to 4 KiB are not counted: else strangers who send them slowly could keep customers out. */
export function createBodyBudget(maxBytes: number): BodyBudget {
  const pool = new SharedPool(maxBytes)
  return {
    get usedBytes() {
      return pool.used
    },
    claim(refOf) {
      let ref = ''
      let taken = 0
      let released = false
      return {
        take(bytes) {
          // A client may leave while it is being vouched for.
          if (released) return
          if (taken === 0) ref = refOf()
          if (!pool.take(ref, bytes)) throw new GatewayError('overloaded')
          taken += bytes
        },
        keep(bytes) {
          const given = Math.max(0, taken - bytes)
          if (given > 0) pool.give(ref, given)
          taken -= given
        },
        release() {
          if (taken > 0) pool.give(ref, taken)
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
  const isLarge = expected !== undefined && expected > smallBytes
  if (isLarge) await options.vouch()
  continueIfAsked(req)
  return expected !== undefined && !isLarge
    ? readSmall(req, expected, options)
    : readLarge(req, { ...options, expected })
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

function readSmall(
  req: IncomingMessage,
  expected: number,
  { timeoutMs }: BodyOptions,
): Promise<Buffer> {
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
    // Known to be whole a little before `req.complete`.
    return received === expected
  }
  return receive(req, { timeoutMs, take, whole: () => body ?? nothing })
}

interface LargeBody extends BodyOptions {
  /** Undefined for chunks: how much it is shows only at their end, and whether it is large when it is. */
  readonly expected: number | undefined
}

/** Memory grows with what comes: an announcement costs its sender nothing. */
function readLarge(req: IncomingMessage, options: LargeBody): Promise<Buffer> {
  const { expected, maxBytes, claim, timeoutMs, bytesPerSecond } = options
  const { patienceMs = defaultPatienceMs } = options
  let body = nothing
  let received = 0
  // Copied, not collected: a chunk of one byte costs a hundred as an object.
  const keep = (chunk: Buffer, before: number) => {
    if (received > body.length) {
      const most = Math.min(growth * body.length, expected ?? maxBytes)
      const larger = Buffer.allocUnsafeSlow(Math.max(received, most))
      body.copy(larger, 0, 0, before)
      free(body)
      body = larger
    }
    chunk.copy(body, before)
    // Node made it for this request alone. A large body leaves as much memory to the collector as it has itself.
    discard(chunk)
  }
  let vouched = expected !== undefined
  const take = (chunk: Buffer) => {
    const before = received
    received += chunk.length
    if (received > maxBytes) throw tooLarge(maxBytes)
    if (vouched) claim.take(chunk.length)
    keep(chunk, before)
    if (vouched || received <= smallBytes) return false
    vouched = true
    return options.vouch().then(() => claim.take(received))
  }
  const isSlow = (ms: number) => received > patientBytes && received < (bytesPerSecond * ms) / 1000
  const whole = () => body.subarray(0, received)
  const reading = receive(req, { timeoutMs, take, pace: { patienceMs, isSlow }, whole })
  reading.catch(() => free(body)) // who awaits it hears of the failure
  return reading
}

/** Room that nothing was written to takes no memory. */
const growth = 4

interface Pace {
  /** It is looked at this often, first after as long. */
  readonly patienceMs: number
  /** Whether what has come within so many ms is too little. */
  isSlow(ms: number): boolean
}

interface Receiver {
  readonly timeoutMs: number
  readonly take: Take
  readonly pace?: Pace
  readonly whole: () => Buffer
}

/** What holds less may come as slowly as it likes. */
const patientBytes = 64 * 1024
const defaultPatienceMs = 5000

/** Of one body in a turn of the event loop: a socket that is full would give 2 MiB. */
const turnBytes = 256 * 1024

/** The one loop of a body; it ends by: whole, end of chunks, refusal, time-out, too slow, client gone. */
function receive(req: IncomingMessage, receiver: Receiver): Promise<Buffer> {
  const { timeoutMs, take, pace, whole } = receiver
  const { socket } = req
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const turns = turnsOf(req)
  const settle = () => {
    clearTimeout(timer)
    clearInterval(looking)
    turns.end()
    req.off('data', onData).off('end', onEnd).off('close', onClose)
    socket.off('close', onClose)
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
    const { length } = chunk // of which nothing is left once it is taken
    try {
      const taken = take(chunk)
      if (taken === true) return onEnd()
      if (taken === false) return turns.took(length)
      req.pause()
      taken.then(() => req.resume(), refuse)
    } catch (error) {
      refuse(error)
    }
  }
  const timer = setTimeout(() => refuse(new GatewayError('request_timeout')), timeoutMs)
  const looking = pace && lookAfter(pace, refuse)
  if (req.destroyed) {
    refuse(new ClientLeft('the client left before its body was read'))
  } else {
    req.on('data', onData).on('end', onEnd).on('close', onClose)
    // Where the parser of HTTP refused the rest and answered, the request itself is never closed.
    socket.on('close', onClose)
  }
  return promise
}

/** Lets others have their turn between two parts of a body. */
function turnsOf(req: IncomingMessage) {
  let read = 0
  let resuming: NodeJS.Immediate | undefined
  return {
    took(bytes: number): void {
      read += bytes
      if (read < turnBytes) return
      read = 0
      req.pause()
      resuming = setImmediate(() => req.resume())
    },
    end: () => clearImmediate(resuming),
  }
}

function lookAfter({ patienceMs, isSlow }: Pace, refuse: (error: unknown) => void) {
  const begun = performance.now()
  const look = () => {
    if (isSlow(performance.now() - begun)) {
      refuse(new GatewayError('request_timeout', { message: tooSlow }))
    }
  }
  return setInterval(look, patienceMs)
}

const tooSlow = 'The request came too slowly. Send it again over a faster connection, or send less.'
