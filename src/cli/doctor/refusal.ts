// A backend's refusal in one line: its status, and the sentence in its body, in any of the usual shapes, without the
// target's secrets.

import type { IncomingMessage } from 'node:http'
import { mask } from '../../backend/secrets.ts'
import type { Target } from '../../config/config.ts'
import { field, parsed } from '../../http/json/field.ts'
import { fail } from './examination.ts'
import type { CheckOutcome } from './examination.ts'

const mostBytes = 4 * 2 ** 20

/** Reads up to `mostBytes`, enough for a list of thousands of models; throws when there is more, or when the stream is cut. */
export async function readBody(stream: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > mostBytes) throw new Error(`the answer has more than ${mostBytes / 2 ** 20} MiB`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

export function refusal(status: number, body: Buffer, target: Target): CheckOutcome {
  const said = saidBy(mask(body, target).toString())
  const why = said === '' ? '' : `: ${said}`
  if (status === 401 || status === 403) {
    const key = target.key === undefined ? 'and no key is configured' : 'the key is refused'
    return fail(`${status}, ${key}${why}`)
  }
  return fail(`${status}${why}`)
}

/** The sentence in `{error: {message}}`, `{error}`, `{detail}` or `{message}`, else the text, unless that is an HTML page. */
export function saidBy(text: string): string {
  const value = parsed(text)
  if (value === undefined) return /^\s*</.test(text) ? '' : text
  const error = field(value, 'error')
  const candidates = [
    field(error, 'message'),
    error,
    field(value, 'detail'),
    field(value, 'message'),
  ]
  const sentence = candidates.find((one) => typeof one === 'string')
  return typeof sentence === 'string' ? sentence : text
}
