// What stands in objects and streams of the API, and has no table of its own in docs/api.md: parts of a message, calls of
// tools, events.

import { inner, oneOf, text } from './fields.ts'
import type { Fields, JsonSchema } from './fields.ts'

/** docs/api.md#parts-of-a-message shows parts as they are sent. */
export const pieces = {
  'Text part': { type: oneOf('text'), text: text() },
  'Image part': {
    type: oneOf('image_url'),
    image_url: inner({
      url: text('A data URL, or an address.'),
      'detail?': text('`auto`, `low` or `high`.'),
    }),
  },
  'File part': {
    type: oneOf('file'),
    file: inner({ file_id: text('A file of this session.'), 'filename?': text('When shown.') }),
  },
  'Tool call': {
    id: text(),
    type: oneOf('function'),
    function: inner({
      name: text(),
      arguments: text('JSON as the model wrote it, so it may be broken.'),
    }),
  },
} satisfies Readonly<Record<string, Fields>>

const grammar = String.raw`UTF-8, lines end in LF:

    stream = "retry: 1000" LF *( heartbeat / event ) last
    heartbeat = ":" LF
    event = "id: " message ":" seq LF [ "event: " name LF ] 1*( "data: " line LF ) LF
    last = an event with "data: [DONE]", or with an error

seq counts 0, 1, 2 … without gaps; a stream that is read on begins after the event that the client names.`

const plainGrammar = String.raw`UTF-8, lines end in LF:

    stream = *( heartbeat / event ) last
    heartbeat = ":" LF
    event = [ "event: " name LF ] 1*( "data: " line LF ) LF
    last = an event with "data: [DONE]", or with an error

The data are the backend's, byte for byte.`

const data = { type: 'string', description: "A chunk's JSON, `[DONE]`, or an error's JSON." }
const name = { type: 'string', description: 'The name that the backend gave.' }

/** One event of a stream, which is a sequence of them; as a reader of event streams sees it. */
export const events: Readonly<Record<string, JsonSchema>> = {
  StreamEvent: {
    type: 'object',
    description: `An event of a session's stream. ${grammar}`,
    properties: {
      id: { type: 'string', pattern: String.raw`^msg_[0-9a-f]{32}:\d+$` },
      event: name,
      data,
      retry: { type: 'integer', const: 1000 },
    },
    required: ['id', 'data'],
  },
  PlainEvent: {
    type: 'object',
    description: `An event of a stream of /v1. ${plainGrammar}`,
    properties: { event: name, data },
    required: ['data'],
  },
}
