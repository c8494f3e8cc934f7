// A backend's answer that is no stream, read to its end. One that is too large is not kept, but read on for the usage that
// stands at its end: what was generated is charged, whoever gets it.

import type { BackendAnswer } from '../backend/sending.ts'
import type { Refused } from '../backend/usage.ts'

export interface WholeAnswer {
  /** All of it, up to `maxBytes`; of more only how it began. */
  readonly body: Buffer
  readonly how: 'whole' | 'cut'
  readonly isTooLarge: boolean
  /** For the meter, where nobody gets it. */
  refused(): Refused
}

/** So many times the bound are read for the sake of the usage. */
const readOn = 16
const headBytes = 1024 * 1024
const tailBytes = 64 * 1024

export async function readWhole(
  { stream, ended }: BackendAnswer,
  maxBytes: number,
): Promise<WholeAnswer> {
  let chunks: Buffer[] = []
  let head: Buffer = nothing
  let tail: Buffer = nothing
  let bytes = 0
  stream.on('error', () => undefined)
  stream.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes <= maxBytes) return void chunks.push(chunk)
    if (chunks.length > 0) {
      head = Buffer.concat(chunks).subarray(0, headBytes)
      tail = last(chunks)
      chunks = []
    }
    if (head.length === 0) head = chunk.subarray(0, headBytes)
    tail = last([tail, chunk])
    if (bytes > readOn * maxBytes) stream.destroy()
  })
  const how = await ended
  const isTooLarge = bytes > maxBytes
  const body = isTooLarge
    ? head
    : chunks.length === 1 && chunks[0]
      ? chunks[0]
      : Buffer.concat(chunks)
  return {
    body,
    how,
    isTooLarge,
    refused: () => ({
      head: body.toString('latin1', 0, headBytes),
      tail: (isTooLarge ? tail : last([body])).toString('latin1'),
      bytes,
      isAnswer: isTooLarge,
    }),
  }
}

const nothing = Buffer.alloc(0)

function last(chunks: readonly Buffer[]): Buffer {
  const all = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)
  return Buffer.copyBytesFrom(all, Math.max(0, all.length - tailBytes))
}
