// Checks the text fields of an upload, and the name of its file: fields are known, at most once, valid. upload.ts says
// which fields must come before the file.

import { isId } from '../../ids.ts'
import { GatewayError } from '../../errors.ts'
import { invalidParameter } from '../../http/refusals.ts'

const maxExpiryS = 10 * 365 * 24 * 3600

/** The shape of each field, and the words for it in refusals. */
const shapes: ReadonlyMap<string, { readonly shape: RegExp; readonly hint: string }> = new Map([
  ['session_id', { shape: /^.+$/s, hint: 'the id of a session' }],
  [
    'purpose',
    {
      shape: /^[a-z][a-z0-9_-]{0,63}$/,
      hint: 'a word of at most 64 characters, such as user_data',
    },
  ],
  ['expires_after', { shape: /^[1-9]\d{0,8}$/, hint: `seconds, from 1 to ${maxExpiryS}` }],
  ['expires_after[seconds]', { shape: /^[1-9]\d{0,8}$/, hint: `seconds, from 1 to ${maxExpiryS}` }],
  ['expires_after[anchor]', { shape: /^created_at$/, hint: 'created_at' }],
  ['sha256', { shape: /^[0-9a-f]{64}$/i, hint: '64 hexadecimal digits' }],
])

export const fieldNames: readonly string[] = [...shapes.keys()]

export class FormFields {
  readonly #values = new Map<string, string>()
  readonly #taken = new Set<string>()

  constructor(query: URLSearchParams) {
    const inQuery = query.getAll('session_id')
    if (inQuery.length > 1) throw invalidParameter('session_id', 'Send session_id once.')
    if (inQuery[0]) this.#values.set('session_id', inQuery[0])
  }

  /** Throws `unknown_parameter`, or `invalid_parameter` for a second one and for bad values. */
  take(name: string, value: string): void {
    const known = shapes.get(name)
    if (!known) throw unknownField(name)
    if (this.#taken.has(name)) throw invalidParameter(name, `Send ${name} once.`)
    this.#taken.add(name)
    // HTML forms also send fields that are empty.
    if (value === '') return
    if (!known.shape.test(value)) throw invalidParameter(name, `${name} must be ${known.hint}.`)
    const inQuery = this.#values.get(name) ?? value
    if (inQuery !== value) {
      const message = `The ${name} in the form differs from the one in the query. Send only one.`
      throw invalidParameter(name, message)
    }
    this.#values.set(name, value)
  }

  /** The session's id, which must be known before the file begins. Throws `missing_parameter`, `session_not_found`. */
  session(): string {
    const param = 'session_id'
    const session = this.#values.get(param)
    if (session === undefined) {
      const message = `${param} is missing. Send it as a field that comes before the file, or as ?${param}=.`
      throw new GatewayError('missing_parameter', { message, param })
    }
    if (!isId('sess', session)) throw new GatewayError('session_not_found', { param })
    return session
  }

  get purpose(): string {
    return this.#values.get('purpose') ?? 'user_data'
  }

  get sha256(): string | undefined {
    return this.#values.get('sha256')?.toLowerCase()
  }

  /**
   * To be called when all fields have come. Throws `missing_parameter`. OpenAI's SDKs write `expires_after[anchor]` and
   * `expires_after[seconds]`.
   */
  expiresAfterS(): number | null {
    const [name, param] = ['expires_after', 'expires_after[seconds]'] as const
    const [plain, nested] = [this.#values.get(name), this.#values.get(param)]
    if (plain !== undefined && nested !== undefined) {
      throw invalidParameter(name, `Send ${name} or ${param}, not both.`)
    }
    const text = plain ?? nested
    if (text === undefined) {
      if (!this.#values.has('expires_after[anchor]')) return null
      throw new GatewayError('missing_parameter', { message: `${param} is missing.`, param })
    }
    const seconds = Number(text)
    if (seconds <= maxExpiryS) return seconds
    throw invalidParameter(name, `${name} must be seconds, from 1 to ${maxExpiryS}.`)
  }
}

export function unknownField(name: string): GatewayError {
  const shown = name.slice(0, 100).toWellFormed()
  return new GatewayError('unknown_parameter', {
    message: `The form has a part that this route does not know: ${JSON.stringify(shown)}. It takes file, ${fieldNames.join(', ')}.`,
    param: shown,
  })
}

const mostNameBytes = 255
/** A longer ending is no extension, and may be cut. */
const maxExtensionBytes = 32

// Controls, the marks that change the direction of text, separators of lines, and the byte order mark.
const unseen = /[\p{Cc}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/gu

/**
 * Makes the name of a stored file from the name that the client wrote: one path part, in NFC, which is not hidden, and
 * can't lead out of a folder, break a header line or reverse its own letters. When nothing is left, the name is `file`.
 */
export function cleanFileName(written: string | undefined): string {
  const plain = unescapeQuotes((written ?? '').toWellFormed())
    .replace(unseen, '')
    .normalize('NFC')
  const base = plain.slice(Math.max(plain.lastIndexOf('/'), plain.lastIndexOf('\\')) + 1)
  const shown = base.replace(/^[\s.]+/u, '').trimEnd()
  return fit(shown) || 'file'
}

/** Browsers escape only these three characters, in this way (WHATWG HTML, multipart/form-data). */
function unescapeQuotes(name: string): string {
  return name.replace(/%(?:22|0d|0a)/gi, (escape) => (escape === '%22' ? '"' : ''))
}

/** Cuts the stem, so that the extension stays. */
function fit(name: string): string {
  if (Buffer.byteLength(name) <= mostNameBytes) return name
  const dot = name.lastIndexOf('.')
  const extension = dot > 0 ? name.slice(dot) : ''
  const extensionBytes = Buffer.byteLength(extension)
  if (extensionBytes > maxExtensionBytes) return cutTo(name, mostNameBytes)
  return cutTo(name.slice(0, dot < 0 ? undefined : dot), mostNameBytes - extensionBytes) + extension
}

/** Cuts between code points. */
function cutTo(text: string, bytes: number): string {
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(bytes))
  return text.slice(0, read).trimEnd()
}
