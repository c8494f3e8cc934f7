// Checks the text fields of an upload: known, at most once,
// valid. upload.ts says which fields must come before the file.

import { isId } from '../../ids.ts'
import { GatewayError } from '../../errors.ts'
import { invalidParameter } from '../../http/refusals.ts'

export interface FormFields {
  /** Throws `unknown_parameter`, or `invalid_parameter` for a second one and for bad values. */
  take(name: string, value: string): void
  /** The session's id, which must be known before the file begins. Throws `missing_parameter`, `session_not_found`. */
  session(): string
  readonly purpose: string
  readonly sha256: string | undefined
  /** To be called when all fields have come. Throws `missing_parameter`. */
  expiresAfterS(): number | null
}

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

export function collectFields(query: URLSearchParams): FormFields {
  const values = new Map<string, string>()
  const inQuery = query.getAll('session_id')
  if (inQuery.length > 1) throw invalidParameter('session_id', 'Send session_id once.')
  if (inQuery[0]) values.set('session_id', inQuery[0])
  const taken = new Set<string>()
  return {
    take(name, value) {
      const known = shapes.get(name)
      if (!known) throw unknownField(name)
      if (taken.has(name)) throw invalidParameter(name, `Send ${name} once.`)
      taken.add(name)
      // HTML forms also send fields that are empty.
      if (value === '') return
      if (!known.shape.test(value)) throw invalidParameter(name, `${name} must be ${known.hint}.`)
      if (name === 'session_id') refuseAnother(values.get(name), value)
      values.set(name, value)
    },
    session: () => sessionOf(values.get('session_id')),
    get purpose() {
      return values.get('purpose') ?? 'user_data'
    },
    get sha256() {
      return values.get('sha256')?.toLowerCase()
    },
    expiresAfterS: () => expiryOf(values),
  }
}

export function unknownField(name: string): GatewayError {
  const shown = name.slice(0, 100).toWellFormed()
  return new GatewayError('unknown_parameter', {
    message: `The form has a part that this route does not know: ${JSON.stringify(shown)}. It takes file, ${fieldNames.join(', ')}.`,
    param: shown,
  })
}

function refuseAnother(known: string | undefined, value: string): void {
  if (known !== undefined && known !== value) {
    throw invalidParameter(
      'session_id',
      'The session_id in the form differs from the one in the query. Send only one.',
    )
  }
}

function sessionOf(session: string | undefined): string {
  if (session === undefined) {
    throw new GatewayError('missing_parameter', {
      message:
        'session_id is missing. Send it as a field that comes before the file, or as ?session_id=.',
      param: 'session_id',
    })
  }
  if (!isId('sess', session)) throw new GatewayError('session_not_found', { param: 'session_id' })
  return session
}

/** OpenAI's SDKs write `expires_after[anchor]` and `expires_after[seconds]`. */
function expiryOf(values: ReadonlyMap<string, string>): number | null {
  const plain = values.get('expires_after')
  const nested = values.get('expires_after[seconds]')
  if (plain !== undefined && nested !== undefined) {
    throw invalidParameter(
      'expires_after',
      'Send expires_after or expires_after[seconds], not both.',
    )
  }
  const text = plain ?? nested
  if (text !== undefined) {
    const seconds = Number(text)
    if (seconds <= maxExpiryS) return seconds
    throw invalidParameter(
      'expires_after',
      `expires_after must be seconds, from 1 to ${maxExpiryS}.`,
    )
  }
  if (!values.has('expires_after[anchor]')) return null
  throw new GatewayError('missing_parameter', {
    message: 'expires_after[seconds] is missing.',
    param: 'expires_after[seconds]',
  })
}
