// Reads answers that are not streams: JSON and errors, within limits. Closes answers that it does not read.

import type { Attempt } from './attempt.ts'
import { ConnectionError, TollgateError } from './errors.ts'

const maxJson = 64 * 1_048_576
const maxError = 1_048_576
/** A limit, because a body that comes byte by byte would take for ever. */
const maxErrorMs = 10_000

export async function jsonOf(attempt: Attempt): Promise<unknown> {
  const decoder = new TextDecoder()
  let text = ''
  let length = 0
  for (;;) {
    const piece = await attempt.read()
    if (!piece) break
    length += piece.length
    if (length > maxJson) {
      attempt.close()
      throw new TollgateError(`The answer is longer than ${maxJson} bytes.`)
    }
    text += decoder.decode(piece, { stream: true })
  }
  let json: unknown
  let cause: unknown
  try {
    json = JSON.parse(text + decoder.decode())
  } catch (error) {
    cause = error
  }
  if (typeof json === 'object' && json !== null && !Array.isArray(json)) return json
  throw new TollgateError('The answer is no JSON object. Is the base URL that of a Tollgate?', {
    cause,
  })
}

/** The body of an error, as much of it as came. Rejects only with the caller's own reason. */
export async function textOf(attempt: Attempt): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  const late = () => attempt.close(new ConnectionError('The refusal did not end.'))
  const timer = setTimeout(late, Math.min(attempt.idleMs, maxErrorMs))
  try {
    for (let length = 0; length < maxError;) {
      const piece = await attempt.read()
      if (!piece) return text
      length += piece.length
      text += decoder.decode(piece, { stream: true })
    }
  } catch (error) {
    // The status is known, and says more than the loss of the rest.
    if (!(error instanceof ConnectionError)) throw error
  } finally {
    clearTimeout(timer)
  }
  attempt.close()
  return text
}
