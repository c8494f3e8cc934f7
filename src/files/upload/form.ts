// Reads a multipart/form-data request as parts, in order, one at a time: the one importer of busboy. Bounded in memory
// and in bytes, with a timer for clients that stop sending. However reading ends, the request is left paused; the rest
// of a refused one stays unread. upload.ts knows what the parts mean.

import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { isUtf8 } from 'node:buffer'
import createBusboy from 'busboy'
import type { Busboy } from 'busboy'
import { GatewayError } from '../../errors.ts'
import { ClientLeft, continueIfAsked } from '../../http/body.ts'
import { invalidParameter } from '../../http/refusals.ts'

export interface FormOptions {
  /** Most bytes of the whole body. */
  readonly maxBytes: number
  readonly tooLarge: () => GatewayError
  /** The longest time without a byte from the client; time in which the reader of the parts holds the client back does not count. */
  readonly idleMs: number
  /** Least bytes a second, over each `idleMs` in which nobody held the client back. */
  readonly rateBytes: number
  /** Aborted by the form or by its reader, with the first cause to stop as the reason. */
  readonly stop: AbortController
}

interface FormText {
  readonly name: string
  readonly value: string
}

export interface FormFile {
  readonly name: string
  /** As the client wrote it, with its path. */
  readonly filename: string | undefined
  /** The reader must read it to its end before it asks for the next part. When the form fails, this fails with the same cause. */
  readonly content: AsyncIterable<Buffer>
}

export interface Form {
  /** The next part; undefined after the last part of a whole form. Throws the cause to stop. */
  next(): Promise<FormText | FormFile | undefined>
}

const maxFieldBytes = 4096
/** Most parts of each kind (fields, files): parts that are parsed while the reader is busy wait in memory. */
const maxParts = 32
// Larger than what a socket gives at once, so that a parser that keeps up never pauses the request.
const parserBytes = 128 * 1024

/** Checks the headers; reads nothing of the body. Throws `unsupported_media_type` and `malformed_request`. */
export function parseFormHeaders({ headers }: IncomingMessage): Busboy {
  const type = headers['content-type'] ?? ''
  if (!/^\s*multipart\/form-data\s*(;|$)/i.test(type)) throw unsupported('as multipart/form-data')
  const coding = headers['content-encoding']
  if (coding !== undefined && coding.toLowerCase() !== 'identity') {
    throw unsupported('without Content-Encoding')
  }
  const boundary = /;\s*boundary=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))/i.exec(type)
  const length = (boundary?.[1] ?? boundary?.[2] ?? '').length
  // RFC 2046, 5.1.1. A long boundary also makes the search slow in a file that repeats half of it.
  if (length < 1 || length > 70) {
    throw malformed('The Content-Type needs a boundary of 1 to 70 characters')
  }
  try {
    return createBusboy({
      headers: { 'content-type': type.trim() },
      limits: { fieldSize: maxFieldBytes, fields: maxParts, files: maxParts },
      highWaterMark: parserBytes,
      preservePath: true,
      // `decodeParam` decodes: browsers send UTF-8, some other clients the charset of their system.
      defParamCharset: 'latin1',
    })
  } catch (cause) {
    throw malformed('The Content-Type is not readable', cause)
  }
}

function unsupported(how: string): GatewayError {
  return new GatewayError('unsupported_media_type', { message: `Send the file ${how}.` })
}

function malformed(what: string, cause?: unknown): GatewayError {
  return new GatewayError('malformed_request', {
    message: `${what}. Let an HTTP library build the form.`,
    cause,
  })
}

/** Starts to read. */
export function readForm(req: IncomingMessage, parser: Busboy, options: FormOptions): Form {
  const { stop } = options
  const parts = queueParts(stop.signal)
  let file: Readable | undefined
  const take = (part: FormText | FormFile | GatewayError) => {
    if (part instanceof GatewayError) stop.abort(part)
    else parts.add(part)
  }
  const onError = (cause: unknown) => stop.abort(malformed('The form is not complete', cause))
  parser.on('error', onError)
  parser.on('field', (name, value, { valueTruncated }) => {
    take(textPart(name, value, valueTruncated))
  })
  parser.on('file', (name, content, { filename, encoding }) => {
    // Needed even before the file is read: an error of a file in the queue would end the process.
    content.on('error', onError)
    file = content
    take(filePart({ name, filename, encoding, content: piecesOf(content, stop.signal) }))
  })
  const refuseMore = () => stop.abort(malformed('The form has too many parts'))
  parser.on('fieldsLimit', refuseMore).on('filesLimit', refuseMore)
  parser.on('close', parts.end)
  stop.signal.addEventListener('abort', () => {
    // Before the parser, which would destroy the file too, with an error of its own.
    file?.destroy(stop.signal.reason)
    parser.destroy()
    parts.end()
  })
  // When Node's HTTP parser has refused the rest of the request, only the socket shows that.
  const hasLeft = req.destroyed || req.socket.destroyed
  if (hasLeft) stop.abort(new ClientLeft('the client left before its form was read'))
  else pump(req, parser, options)
  return parts
}

interface Queue extends Form {
  add(part: FormText | FormFile): void
  end(): void
}

function queueParts(stop: AbortSignal): Queue {
  const parts: (FormText | FormFile)[] = []
  let hasEnded = false
  let wake: (() => void) | undefined
  return {
    add(part) {
      parts.push(part)
      wake?.()
    },
    end() {
      hasEnded = true
      wake?.()
    },
    async next() {
      if (parts.length === 0 && !hasEnded && !stop.aborted) {
        await new Promise<void>((resolve) => (wake = resolve))
      }
      stop.throwIfAborted()
      return parts.shift()
    },
  }
}

/** Throws the cause to stop in place of the parser's own errors, which say less. */
async function* piecesOf(content: Readable, stop: AbortSignal): AsyncGenerator<Buffer> {
  try {
    for await (const piece of content) yield piece as Buffer
  } catch (error) {
    stop.throwIfAborted()
    throw error
  }
}

function textPart(name: string | undefined, value: string, isCut: boolean) {
  if (!name) return malformed('A part has no name')
  const param = decodeParam(name)
  if (isCut) {
    const message = `The field is longer than ${maxFieldBytes - 1} bytes.`
    return invalidParameter(param.slice(0, 100), message)
  }
  // `value` is undefined when the part names an unknown charset.
  if (typeof value === 'string') return { name: param, value }
  return malformed(`The charset of ${JSON.stringify(param.slice(0, 100))} is not known`)
}

interface FileEvent {
  readonly name: string | undefined
  readonly filename: string | undefined
  readonly encoding: string
  readonly content: AsyncIterable<Buffer>
}

function filePart({ name, filename, encoding, content }: FileEvent) {
  if (!name) return malformed('A part has no name')
  // RFC 7578, 4.7, forbids it. Storing the encoded bytes as they are would surprise the client.
  if (encoding === 'base64' || encoding === 'quoted-printable') {
    return malformed('The form uses Content-Transfer-Encoding, which is not accepted')
  }
  return {
    name: decodeParam(name),
    filename: filename === undefined ? undefined : decodeParam(filename),
    content,
  }
}

const windows1252 = new TextDecoder('windows-1252')

/** `raw` has a byte in each character, except from `filename*`, which is decoded already. */
function decodeParam(raw: string): string {
  if (/^[ -~]*$/.test(raw) || /[^\0-\xff]/.test(raw)) return raw
  const bytes = Buffer.from(raw, 'latin1')
  return isUtf8(bytes) ? bytes.toString() : windows1252.decode(bytes)
}

/**
 * The one loop that reads a form's bytes. It ends when the form is whole, too large, idle or too slow, when the client
 * leaves, or when others stop it.
 */
function pump(req: IncomingMessage, parser: Busboy, options: FormOptions): void {
  const { maxBytes, tooLarge, idleMs, rateBytes, stop } = options
  const { socket } = req
  const leastBytes = (rateBytes * idleMs) / 1000
  let received = 0
  let before = 0
  let wasHeld = false
  const onData = (chunk: Buffer) => {
    idle.refresh()
    received += chunk.length
    if (received > maxBytes) stop.abort(tooLarge())
    else if (!writeTo(parser, chunk, stop)) {
      wasHeld = true
      req.pause()
    }
  }
  const onDrain = () => {
    idle.refresh()
    req.resume()
  }
  const onIdle = () => {
    const isHeld = parser.writableNeedDrain
    if (!isHeld) stop.abort(new GatewayError('request_timeout'))
  }
  // Refuses a client that sends a byte now and then: other uploads could use its place.
  const onPeriod = () => {
    if (!wasHeld && received - before < leastBytes) stop.abort(tooSlow(rateBytes))
    before = received
    wasHeld = parser.writableNeedDrain
  }
  const onEnd = () => {
    settle()
    // Not `end`, which waits for ever for a file that was opened by a boundary within its headers. Once all bytes are
    // parsed, `destroy` fails a file that is still open, and does not touch a file that was read to its end.
    parser.write(Buffer.alloc(0), () => void parser.destroy())
  }
  const onClose = () => stop.abort(new ClientLeft('the client left within its form'))
  const idle = setTimeout(onIdle, idleMs)
  const periods = setInterval(onPeriod, idleMs)
  const settle = () => {
    clearTimeout(idle)
    clearInterval(periods)
    req.pause().off('data', onData).off('end', onEnd).off('close', onClose)
    socket.off('close', onClose)
    parser.off('drain', onDrain)
    stop.signal.removeEventListener('abort', settle)
  }
  stop.signal.addEventListener('abort', settle)
  parser.on('drain', onDrain)
  continueIfAsked(req)
  req.on('data', onData).on('end', onEnd).on('close', onClose)
  // When Node's HTTP parser has refused the rest and answered, the request itself never emits `close`.
  socket.on('close', onClose)
}

/** Gives up at the first error: busboy would parse the rest of the chunk, and make an error for each of 7000 broken parts. */
function writeTo(parser: Busboy, chunk: Buffer, { signal }: AbortController): boolean {
  const giveUp = (error: unknown) => {
    throw error
  }
  parser.on('error', giveUp)
  try {
    return parser.write(chunk)
  } catch (error) {
    // The listener of `readForm` has the error already.
    if (!signal.aborted) throw error
    return true
  } finally {
    parser.off('error', giveUp)
  }
}

function tooSlow(rateBytes: number): GatewayError {
  const message = `Less than ${rateBytes} bytes a second arrived of the upload. Send it again on a faster line.`
  return new GatewayError('request_timeout', { message })
}
