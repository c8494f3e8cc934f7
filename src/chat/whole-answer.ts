// Reads a backend's answer that is not a stream to its end. An answer that is too large is not kept, but is read on for
// the usage at its end: what was generated is charged, even if nobody gets it.

import type { BackendAnswer } from '../backend/forward.ts'
import type { Wasted } from '../backend/report.ts'

export interface WholeAnswer {
  /** The whole answer, up to `maxBytes`; of a larger answer only the beginning. */
  readonly body: Buffer
  readonly how: 'whole' | 'cut'
  readonly isTooLarge: boolean
  /** What the meter needs of an answer that nobody gets. */
  wasted(): Wasted
}

/** To find the usage, at most this many times `maxBytes` are read. */
const readOn = 16
const headBytes = 1024 * 1024
const tailBytes = 64 * 1024

export async function readWhole(
  { stream, ended }: BackendAnswer,
  maxBytes: number,
): Promise<WholeAnswer> {
  let chunks: Buffer[] = []
  let head: Buffer = nothing
  let tail: Tail | undefined
  let bytes = 0
  stream.on('error', () => undefined)
  stream.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    chunks.push(chunk)
    if (bytes <= maxBytes) return
    if (!tail) {
      tail = new Tail()
      head = Buffer.concat(chunks, Math.min(bytes, headBytes))
    }
    for (const one of chunks) tail.add(one)
    chunks = []
    if (bytes > readOn * maxBytes) stream.destroy()
  })
  const how = await ended
  const isTooLarge = tail !== undefined
  const whole = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)
  const body = isTooLarge ? head : whole
  return {
    body,
    how,
    isTooLarge,
    wasted: () => ({
      head: body.toString('latin1', 0, headBytes),
      tail: (tail?.bytes ?? body.subarray(-tailBytes)).toString('latin1'),
      bytes,
      isAnswer: isTooLarge,
    }),
  }
}

const nothing = Buffer.alloc(0)

/** The last bytes of what is given, in memory of a fixed size, however small the pieces are. */
class Tail {
  readonly #room = Buffer.allocUnsafeSlow(2 * tailBytes)
  #length = 0

  add(chunk: Buffer): void {
    const piece = chunk.subarray(-tailBytes)
    if (this.#length + piece.length > this.#room.length) {
      this.#room.copyWithin(0, this.#length - tailBytes, this.#length)
      this.#length = tailBytes
    }
    this.#length += piece.copy(this.#room, this.#length)
  }

  get bytes(): Buffer {
    return this.#room.subarray(Math.max(0, this.#length - tailBytes), this.#length)
  }
}
