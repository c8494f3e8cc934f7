// Reads a whole JSON request body. Its size, its time, its pace, and the memory of all bodies in flight are bounded;
// each account has a share of that memory. More than 4 KiB is read only for a caller that `vouch` lets through.
// json/scan.ts parses the bytes.

import type { IncomingMessage } from 'node:http'
import { discard, free } from '../sharing/discard.ts'
import { GatewayError } from '../errors.ts'
import type { SharedPool } from '../sharing/shared-pool.ts'
import { smallBytes } from './json/scan.ts'

export interface BodyOptions {
  readonly maxBytes: number
  /** The whole body must arrive within this time. */
  readonly timeoutMs: number
  /** A body of more than 64 KiB must arrive at least this fast on average, measured after `patienceMs`. */
  readonly bytesPerSecond: number
  /** Before this time no body counts as slow. */
  readonly patienceMs?: number
  /** Awaited once before more than 4 KiB is read. Throws to refuse. */
  vouch(): Promise<void>
  readonly share: BodyShare
}

/** One exchange's part of the memory for bodies. */
export interface BodyShare {
  /** Throws `overloaded` when all bodies, or those of the account, would be too large. */
  take(bytes: number): void
  /** Gives back all but `bytes`, because only that much is still in memory. */
  keep(bytes: number): void
  /** Gives back everything; nothing can be taken afterwards. Calling it again has no further effect. */
  release(): void
}

export interface BodyBudget {
  /** `refOf` is called at the first `take`: only then is it known whose body it is. */
  share(refOf: () => string): BodyShare
}

/** The client closed before its request was whole: there is nobody to answer. */
export class ClientLeft extends Error {
  override readonly name = 'ClientLeft'
}

/** Bodies up to 4 KiB are not counted: otherwise callers without a key could send them slowly and keep customers out. */
export function createBodyBudget(pool: SharedPool): BodyBudget {
  return {
    share(refOf) {
      let ref = ''
      let taken = 0
      let released = false
      return {
        take(bytes) {
          // A client may leave while `vouch` runs.
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

/** The route decides whether an empty body is valid. After a refusal the request is left unread: reply.ts lets the client finish. */
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
  // Most clients send exactly this; the regular expression costs more.
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

export function isJsonType(type: string | undefined): boolean {
  const match = /^\s*application\/json\s*(;.*)?$/i.exec(type ?? '')
  if (!match) return false
  const charset = /;\s*charset\s*=\s*"?([^\s;"]*)/i.exec(match[1] ?? '')?.[1]
  return charset === undefined || /^utf-?8$/i.test(charset)
}

const awaitingContinue = new WeakMap<IncomingMessage, () => void>()

/** Called by server.ts: `100 Continue` is sent when the body is wanted, not before. */
export function onBodyWanted(req: IncomingMessage, sendContinue: () => void): void {
  awaitingContinue.set(req, sendContinue)
}

/** Called before the first byte of a body is read. */
export function continueIfAsked(req: IncomingMessage): void {
  if (req.headers.expect !== undefined) awaitingContinue.get(req)?.()
}

/** Called with each chunk. Returns true when the body is whole; a promise pauses the request until it resolves. */
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
    // So the body is known to be whole a little earlier than by `req.complete`.
    return received === expected
  }
  return receive(req, { timeoutMs, take, whole: () => body ?? nothing })
}

interface LargeBody extends BodyOptions {
  /** Undefined for a chunked body: its size is known only at its end, and it counts as large once 4 KiB have come. */
  readonly expected: number | undefined
}

/** The buffer grows with the bytes that arrive, not with Content-Length: a client can announce any size for free. */
function readLarge(req: IncomingMessage, options: LargeBody): Promise<Buffer> {
  const { expected, maxBytes, share, timeoutMs, bytesPerSecond } = options
  const { patienceMs = defaultPatienceMs } = options
  let body = nothing
  let received = 0
  // Chunks are copied, not collected: a chunk of one byte would take a hundred bytes as an object.
  const keep = (chunk: Buffer, before: number) => {
    if (received > body.length) {
      const most = Math.min(growth * body.length, expected ?? maxBytes)
      const larger = Buffer.allocUnsafeSlow(Math.max(received, most))
      body.copy(larger, 0, 0, before)
      free(body)
      body = larger
    }
    chunk.copy(body, before)
    // Node made the chunk for this request alone. Without this, a large body would leave as much memory to the
    // collector as it takes itself.
    discard(chunk)
  }
  let vouched = expected !== undefined
  const take = (chunk: Buffer) => {
    const before = received
    received += chunk.length
    if (received > maxBytes) throw tooLarge(maxBytes)
    if (vouched) share.take(chunk.length)
    keep(chunk, before)
    if (vouched || received <= smallBytes) return false
    vouched = true
    return options.vouch().then(() => share.take(received))
  }
  const isSlow = (ms: number) => received > patientBytes && received < (bytesPerSecond * ms) / 1000
  const whole = () => body.subarray(0, received)
  const reading = receive(req, { timeoutMs, take, pace: { patienceMs, isSlow }, whole })
  reading.catch(() => free(body)) // the caller awaits `reading` and gets the error
  return reading
}

/** The buffer grows by this factor. Pages that nothing was written to take no memory. */
const growth = 4

interface Pace {
  /** The pace is checked at this interval. */
  readonly patienceMs: number
  /** Whether too few bytes have arrived in the first `ms` milliseconds. */
  isSlow(ms: number): boolean
}

interface Receiver {
  readonly timeoutMs: number
  readonly take: Take
  readonly pace?: Pace
  readonly whole: () => Buffer
}

/** A body that has no more than this in memory may be slow. */
const patientBytes = 64 * 1024
const defaultPatienceMs = 5000

/** The most that is read of one body in a turn of the event loop: a full socket would give 2 MiB. */
const turnBytes = 256 * 1024

/** The one read loop. It ends when the body is whole, at the last chunk, by a refusal or a time-out, or when the client is too slow or leaves. */
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
    const { length } = chunk // read now, because `take` frees the chunk
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
    // If the HTTP parser refused the rest and answered, the request itself never emits `close`.
    socket.on('close', onClose)
  }
  return promise
}

/** Lets other requests have their turn between two parts of a body. */
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
