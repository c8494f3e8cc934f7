// A backend's refusal in one line: its status, and the sentence in its body, without the target's secrets.

import type { IncomingMessage } from 'node:http'
import { saidBy } from '../../backend/said.ts'
import type { Target } from '../../config/config.ts'
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
  const said = saidBy(body, target)
  const why = said === '' ? '' : `: ${said}`
  if (status === 401 || status === 403) {
    const key = target.key === undefined ? 'and no key is configured' : 'the key is refused'
    return fail(`${status}, ${key}${why}`)
  }
  return fail(`${status}${why}`)
}
