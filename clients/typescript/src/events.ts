// Turns the bytes of an event stream into events: in one pass, however the pieces are cut. Promises that no event and
// no line grows beyond its limit. chunk.ts reads the data.

import { createParser } from 'eventsource-parser'
import type { EventSourceMessage, EventSourceParser } from 'eventsource-parser'
import { TollgateError } from './errors.ts'

export type StreamEvent = EventSourceMessage

export const maxEvent = 8 * 1_048_576
/** Room for field names, ids and line ends around the data. */
const slack = 65_536

export class EventReader {
  readonly #decoder = new TextDecoder()
  readonly #parser: EventSourceParser
  #events: StreamEvent[] = []
  #isTooLong = false
  #endsInCr = false
  /** Characters since the last line end. */
  #line = 0

  constructor() {
    this.#parser = createParser({
      maxBufferSize: maxEvent + slack,
      onEvent: (event) => {
        this.#isTooLong ||= isLongerThanAllowed(event.data)
        if (event.data !== '') this.#events.push(event)
      },
      // The standard says to ignore the rest of what the parser reports here.
      onError: ({ type }) => void (this.#isTooLong ||= type === 'max-buffer-size-exceeded'),
    })
  }

  /** Returns the events that this piece completes. */
  feed(piece: Uint8Array): readonly StreamEvent[] {
    const text = this.#decoder.decode(piece, { stream: true })
    if (text !== '') this.#parse(text)
    const events = this.#events
    this.#events = []
    if (this.#isTooLong) throw new TollgateError(`An event is longer than ${maxEvent} bytes.`)
    return events
  }

  #parse(text: string): void {
    // The parser skips lines of unknown fields, however long they get.
    const end = Math.max(text.lastIndexOf('\n'), text.lastIndexOf('\r'))
    this.#line = end < 0 ? this.#line + text.length : text.length - end - 1
    this.#isTooLong ||= this.#line > maxEvent + slack
    if (this.#isTooLong) return
    // A CR at the end may be half of a CRLF. Some versions of the parser wait for more before they take it for a line
    // end.
    const whole = this.#endsInCr && text.startsWith('\n') ? text.slice(1) : text
    if (whole === '') return void (this.#endsInCr = false)
    this.#endsInCr = whole.endsWith('\r')
    this.#parser.feed(this.#endsInCr ? `${whole}\n` : whole)
  }
}

function isLongerThanAllowed(data: string): boolean {
  // A code unit has at most three bytes of UTF-8.
  if (data.length * 3 <= maxEvent) return false
  return new TextEncoder().encode(data).length > maxEvent
}
