// Cuts a backend's byte stream into SSE events. Data values come out byte for byte as latin1 (one char a byte, never
// decoded), whatever the chunk borders and line ends were. Comments, `id:`, `retry:` and events without data are
// dropped; an event that the end of the stream cuts off is never given out. Knows nothing of what data means.

import { GatewayError } from '../errors.ts'
import type { SseEvent } from '../exchange.ts'
import { flatten } from './flat-text.ts'

/** Text that V8 keeps as a rope of this many pieces is made one piece, so that a stream of single bytes does not cost 32 bytes for each. */
const ropeLimit = 4096

export class SseReader {
  readonly #maxBytes: number
  /** Text that belongs to no finished event yet, with LF as its line ends. */
  #rest = ''
  #pieces = 0
  #atStart = true
  /** The last chunk ended in CR: an LF at the beginning of the next chunk belongs to that CR. */
  #afterCr = false

  /** `maxBytes` bounds one event, and so one line. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Calls `onEvent` for each event that this chunk completes, in order. Throws when one is too large. */
  feed(chunk: Buffer, onEvent: (event: SseEvent) => void): void {
    const text = this.#normalized(chunk.toString('latin1'))
    const seen = this.#rest.length
    const joined = this.#rest === '' ? text : this.#rest + text
    // Only the new text and the LF before it can complete an event. Searching all of `joined` each time
    // would make a long event that comes in small pieces quadratic.
    const crossing = seen > 0 && text.startsWith('\n') && this.#rest.endsWith('\n')
    if (!crossing && !text.includes('\n\n') && !this.#atStart) return this.#keep(joined)
    this.#pieces = 0
    let from = this.#afterBom(joined)
    if (from < 0) return this.#keep(joined)
    const searchFrom = Math.max(from, seen - 1)
    let end = joined.indexOf('\n\n', searchFrom)
    while (end >= 0) {
      const start = from
      from = end + 2
      if (end - start > this.#maxBytes) throw this.#tooLarge(joined.slice(start, end))
      const event = this.#eventOf(joined, start, end)
      if (event) onEvent(event)
      end = joined.indexOf('\n\n', from)
    }
    this.#keep(from === 0 ? joined : joined.slice(from))
  }

  /** The stream has ended: what is left was no whole event. */
  end(): void {
    this.#rest = ''
  }

  #keep(rest: string): void {
    // One more byte is allowed: the first of the two LFs that end an event of exactly `maxBytes`.
    if (rest.length > this.#maxBytes + 1) throw this.#tooLarge(rest)
    this.#rest = rest
    if (++this.#pieces < ropeLimit) return
    this.#pieces = 0
    flatten(rest)
  }

  /** CR and CRLF become LF. No data value has either in it, so its bytes stay as they are. */
  #normalized(text: string): string {
    const cut = this.#afterCr && text.startsWith('\n') ? text.slice(1) : text
    if (text !== '') this.#afterCr = text.endsWith('\r')
    return cut.includes('\r') ? cut.replace(/\r\n?/g, '\n') : cut
  }

  /** Where the text begins after a byte order mark; -1 while that is not known. */
  #afterBom(text: string): number {
    if (!this.#atStart) return 0
    const bom = '\u00ef\u00bb\u00bf'
    if (text.length < bom.length && bom.startsWith(text)) return -1
    this.#atStart = false
    return text.startsWith(bom) ? bom.length : 0
  }

  #eventOf(text: string, start: number, end: number): SseEvent | undefined {
    // Nearly every event is one `data: ` line.
    if (text.startsWith('data: ', start)) {
      const lineEnd = text.indexOf('\n', start)
      if (lineEnd === end) {
        return end === start + 6
          ? undefined
          : { event: undefined, data: text.slice(start + 6, end) }
      }
    }
    return this.#parsed(text.slice(start, end))
  }

  #parsed(block: string): SseEvent | undefined {
    let name: string | undefined
    let data: string | undefined
    for (const line of block.split('\n')) {
      if (line === 'data' || line.startsWith('data:')) {
        data = data === undefined ? valueOf(line, 5) : `${data}\n${valueOf(line, 5)}`
      } else if (line === 'event' || line.startsWith('event:')) name = valueOf(line, 6)
    }
    return data === undefined || data === '' ? undefined : { event: name || undefined, data }
  }

  /** Text that belongs to no event that was given out; after a throw, the event that was too large. */
  get rest(): string {
    return this.#rest
  }

  #tooLarge(event: string): GatewayError {
    this.#rest = event
    return new GatewayError('upstream_error', {
      message: 'The model sent an event that is too large.',
      source: 'backend',
      retry: false,
      cause: new Error(`an SSE event of more than ${this.#maxBytes} bytes`),
    })
  }
}

/** The value after the field's colon and one optional space. */
function valueOf(line: string, from: number): string {
  return line.slice(line[from] === ' ' ? from + 1 : from)
}
