// Bytes of an event stream in, events out: in one pass, whatever the pieces are cut like. Promises that no event and
// no line grows beyond its bound. What the data means is chunk.ts's.

import { createParser } from 'eventsource-parser'
import type { EventSourceMessage, EventSourceParser } from 'eventsource-parser'
import { TollgateError } from './errors.ts'

export type StreamEvent = EventSourceMessage

export const maxEvent = 8 * 1_048_576
/** Field names, ids and line ends around the data. */
const slack = 65_536

export class EventReader {
  readonly #decoder = new TextDecoder()
  readonly #parser: EventSourceParser
  #events: StreamEvent[] = []
  #isTooLong = false
  #endsInCr = false
  /** Characters since the last line's end. */
  #line = 0

  constructor() {
    this.#parser = createParser({
      maxBufferSize: maxEvent + slack,
      onEvent: (event) => {
        this.#isTooLong ||= isLongerThanAllowed(event.data)
        if (event.data !== '') this.#events.push(event)
      },
      // The rest of what it complains of is to be ignored.
      onError: ({ type }) => void (this.#isTooLong ||= type === 'max-buffer-size-exceeded'),
    })
  }

  /** The events that this piece completes. */
  feed(piece: Uint8Array): readonly StreamEvent[] {
    const text = this.#decoder.decode(piece, { stream: true })
    if (text !== '') this.#parse(text)
    const events = this.#events
    this.#events = []
    if (this.#isTooLong) throw new TollgateError(`An event is longer than ${maxEvent} bytes.`)
    return events
  }

  #parse(text: string): void {
    // Lines of fields that nobody knows are skipped by the parser, however long they get.
    const end = Math.max(text.lastIndexOf('\n'), text.lastIndexOf('\r'))
    this.#line = end < 0 ? this.#line + text.length : text.length - end - 1
    this.#isTooLong ||= this.#line > maxEvent + slack
    if (this.#isTooLong) return
    // A CR at the end may be half of a CRLF. Not every version of the parser takes it for an end before more comes.
    const whole = this.#endsInCr && text.startsWith('\n') ? text.slice(1) : text
    if (whole === '') return void (this.#endsInCr = false)
    this.#endsInCr = whole.endsWith('\r')
    this.#parser.feed(this.#endsInCr ? `${whole}\n` : whole)
  }
}

function isLongerThanAllowed(data: string): boolean {
  // No character has more than three bytes a code unit.
  if (data.length * 3 <= maxEvent) return false
  return new TextEncoder().encode(data).length > maxEvent
}
