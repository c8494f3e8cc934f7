// Receives one file by multipart/form-data, in bounded memory whatever its length: hashes and sniffs the content on its
// way to `put`. The content ends only when the whole form is known to be good, so that a store never completes the
// object of a bad form. Knows nothing of stores, accounts or rows.

import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { GatewayError } from '../../errors.ts'
import { ClientLeft } from '../../http/body.ts'
import { invalidParameter } from '../../http/refusals.ts'
import { Sniffer } from './content-type.ts'
import { cleanFileName, fieldNames, FormFields, unknownField } from './upload-fields.ts'
import { parseFormHeaders, readForm } from './form.ts'
import type { FormFile, Form } from './form.ts'
import { outflow } from './outflow.ts'
import type { Outflow } from './outflow.ts'
import { formBytes, reserveAhead } from './reserve-ahead.ts'

/** What is known when the file begins. The other fields may come after it: OpenAI's SDKs write the purpose there. */
export interface UploadBegin {
  /** Has the shape of an id; `reserve` checks that the session exists. */
  readonly session: string
  /** Cleaned (upload-fields.ts). */
  readonly filename: string
}

export interface Received extends UploadBegin {
  readonly purpose: string
  readonly expiresAfterS: number | null
  readonly bytes: number
  /** Hex, lower case. */
  readonly sha256: string
  /** By what the bytes are, never by what the client says. */
  readonly contentType: string
}

export interface UploadOptions {
  /** The query of the request, which may have `session_id`. */
  readonly query: URLSearchParams
  /** Most bytes of the file. */
  readonly maxBytes: number
  /** The longest time without a byte from the client; time in which we hold the client back does not count. */
  readonly idleMs: number
  /** Least bytes a second, over each `idleMs`; without it, any rate will do. */
  readonly rateBytes?: number
  /** Content types that may be stored, of those sniffed: `*\/*`, `image/*`, `application/pdf`. */
  readonly allow: readonly string[]
  /** When the signal aborts, the upload rejects with its reason, or with ClientLeft when it has no reason of its own. */
  readonly signal: AbortSignal
  /**
   * Awaited before `put`, and before the file exceeds the last reservation. Asks for all that the request can hold when
   * its length is known, else for a slice ahead; for an empty file, asks for 0. Throws to refuse. After a refusal with
   * `storage_quota_exceeded`, the upload asks again for less.
   */
  reserve(totalBytes: number, fields: UploadBegin): Promise<void>
  /** Stores the content, which ends only when the form is good, and is destroyed with the cause otherwise. */
  put(content: Readable): Promise<void>
  /** For a metric: bytes of the file as they are passed on. */
  onBytes?(count: number): void
}

/**
 * Rejects only after `put` has settled, with the first cause: a refusal of the form, `request_timeout`, ClientLeft,
 * `signal`'s reason, or what `reserve` or `put` threw. The request is left paused, for http/reply.ts to end.
 */
export async function receiveUpload(
  req: IncomingMessage,
  options: UploadOptions,
): Promise<Received> {
  const parser = parseFormHeaders(req)
  const maxBytes = options.maxBytes + formBytes
  const length = Number(req.headers['content-length'] ?? Number.NaN)
  const tooLarge = () => tooLargeFor(options.maxBytes)
  if (length > maxBytes) throw tooLarge()
  const fields = new FormFields(options.query)
  const stop = new AbortController()
  const onSignal = () => stop.abort(reasonOf(options.signal))
  if (options.signal.aborted) throw reasonOf(options.signal)
  options.signal.addEventListener('abort', onSignal)
  const { idleMs, rateBytes = 0 } = options
  const form = readForm(req, parser, { maxBytes, tooLarge, idleMs, rateBytes, stop })
  const upload: UploadRun = { fields, form, options, stop, length, tooLarge }
  try {
    return await receive(upload)
  } catch (error) {
    // Has no effect if `stop` was aborted before: the first cause stays the reason.
    stop.abort(error)
    await upload.out?.stored.catch(() => {}) // The same cause, or a consequence of it.
    throw stop.signal.reason
  } finally {
    options.signal.removeEventListener('abort', onSignal)
  }
}

interface UploadRun {
  readonly fields: FormFields
  readonly form: Form
  readonly options: UploadOptions
  readonly stop: AbortController
  /** Bytes of the body; NaN when the request does not say. */
  readonly length: number
  readonly tooLarge: () => GatewayError
  out?: Outflow
}

type ReceivedFile = UploadBegin & Omit<Received, 'purpose' | 'expiresAfterS'>

async function receive(upload: UploadRun): Promise<Received> {
  const { fields, form } = upload
  let file: ReceivedFile | undefined
  for (;;) {
    const part = await form.next()
    if (part === undefined) break
    if ('value' in part) takeText(fields, part.name, part.value)
    else if (fieldNames.includes(part.name)) throw notAField(part.name)
    else if (part.name !== 'file') throw unknownField(part.name)
    else if (file) throw invalidParameter('file', 'Send exactly one file.')
    else file = await receiveFile(upload, part)
  }
  if (!file) {
    fields.session()
    throw noFile()
  }
  const received = { ...file, purpose: fields.purpose, expiresAfterS: fields.expiresAfterS() }
  if (fields.sha256 !== undefined && fields.sha256 !== file.sha256) {
    throw new GatewayError('checksum_mismatch', {
      message: `The file that arrived has another SHA-256 than the field sha256: ${file.sha256}. Send it again.`,
      param: 'sha256',
    })
  }
  await upload.out?.end()
  return received
}

function takeText(fields: FormFields, name: string, value: string): void {
  if (name !== 'file') return fields.take(name, value)
  throw invalidParameter(
    'file',
    'The part "file" is text. Send it as a file: with a filename in its Content-Disposition.',
  )
}

function notAField(name: string): GatewayError {
  return invalidParameter(
    name,
    `${name} came as a file. Send it as a text field: without a filename and without a Content-Type.`,
  )
}

function noFile(): GatewayError {
  return new GatewayError('missing_parameter', {
    message: 'The form has no file. Send a part named "file" with a filename.',
    param: 'file',
  })
}

/** The one loop of a file's bytes: each piece is counted, reserved, hashed, sniffed, passed on. */
async function receiveFile(upload: UploadRun, part: FormFile): Promise<ReceivedFile> {
  const { options, length, tooLarge } = upload
  const named = { session: upload.fields.session(), filename: cleanFileName(part.filename) }
  const hash = createHash('sha256')
  const sniffer = new Sniffer(options.allow)
  const { maxBytes } = options
  const reserve = (total: number) => options.reserve(total, named)
  const reservation = reserveAhead({ maxBytes, reserve }, length)
  let isSniffed = false
  let bytes = 0
  for await (const piece of part.content) {
    bytes += piece.length
    if (bytes > options.maxBytes) throw tooLarge()
    if (bytes > reservation.bytes) await reservation.extend(bytes)
    sniffer.take(piece)
    if (sniffer.isReady && !isSniffed) {
      isSniffed = true
      await sniffer.refuseEarly()
    }
    hash.update(piece)
    options.onBytes?.(piece.length)
    await openOut(upload).pass(piece)
  }
  // A form of a web page in which the user chose no file.
  if (bytes === 0 && !part.filename) throw noFile()
  if (bytes === 0) await reserve(0)
  openOut(upload)
  return { ...named, bytes, sha256: hash.digest('hex'), contentType: await sniffer.end() }
}

/** Opened late, so that a file that is refused at its first piece never reaches the store. */
function openOut(upload: UploadRun): Outflow {
  const { options, stop } = upload
  stop.signal.throwIfAborted()
  return (upload.out ??= outflow((content) => options.put(content), stop))
}

function tooLargeFor(maxBytes: number): GatewayError {
  return new GatewayError('file_too_large', {
    message: `The file is larger than the limit of ${maxBytes} bytes.`,
    param: 'file',
  })
}

/** An abort without a reason of its own means that the client has left (exchange.ts). */
function reasonOf({ reason }: AbortSignal): unknown {
  const isOwn = reason instanceof Error && reason.name !== 'AbortError'
  return isOwn ? reason : new ClientLeft('the client left within its upload', { cause: reason })
}
