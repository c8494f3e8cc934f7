// Routes for the stream of a message, which any number of clients
// can read from any place, on any instance; and for cancel.

import { GatewayError } from '../../errors.ts'
import { answering, json, refOf } from '../../exchange.ts'
import type { Answer, Exchange, Route, Serving } from '../../exchange.ts'
import { toPublic } from '../../sessions/message.ts'
import type { SessionBook } from '../../sessions/sessions.ts'
import type { Streams } from '../../sessions/streams/streams.ts'
import { idsOf, route } from './route.ts'

export function streamRoutes(streams: Streams, book: SessionBook): readonly Route[] {
  const reading = (
    messageOf: (x: Exchange) => Promise<string | null>,
  ): Partial<Route> & Pick<Route, 'begin'> => ({
    abortOnLeave: true,
    query: ['starting_after'],
    begin: (x) => ({
      async serve() {
        const message = await messageOf(x)
        return message === null ? nothing : await resume(streams, x, { message })
      },
      done: () => streams.readers.leave(x),
    }),
  })
  return [
    route(
      'GET',
      '/:id/messages/:mid/stream',
      reading(async (x) => idsOf(x).message),
    ),
    route(
      'GET',
      '/:id/stream',
      reading(async (x) => (await book.read(refOf(x), idsOf(x).session)).active_message_id),
    ),
    route('POST', '/:id/messages/:mid/cancel', {
      begin: answering(async (x) => {
        const { session, message } = idsOf(x)
        return json(toPublic(await streams.cancel({ ref: refOf(x), session, message }), session))
      }),
    }),
  ]
}

const nothing: Answer = { status: 204, body: '' }

interface Which {
  /** Without it, the message that Last-Event-ID names. */
  readonly message?: string
  /** True for a repeated send: its first try may still be refused. */
  readonly isReplay?: boolean
}

/** A send with Last-Event-ID: it reads on, and sends nothing. */
export function resuming(streams: Streams, x: Exchange): Serving {
  return { serve: () => resume(streams, x), done: () => streams.readers.leave(x) }
}

/** Answers 200 with the stream, or 204 when nothing follows. */
export async function resume(streams: Streams, x: Exchange, which: Which = {}): Promise<Answer> {
  const cursor = cursorOf(x)
  const { session } = idsOf(x)
  const message = which.message ?? cursor?.message ?? ''
  if (cursor?.message !== undefined && cursor.message !== message) throw badCursor()
  const place = { ref: refOf(x), session, message }
  const seq = cursor ? cursor.seq + 1 : 0
  x.facts.stream = true
  const opened = await streams.open(x, place, { seq, isReplay: which.isReplay ?? false })
  return opened ?? nothing
}

interface Cursor {
  /** Undefined with `starting_after`, which has only a seq. */
  readonly message?: string
  readonly seq: number
}

/** The header wins over the query. */
function cursorOf({ headers, query }: Exchange): Cursor | undefined {
  const header = headers['last-event-id']
  if (typeof header === 'string' && header !== '') {
    const found = /^(msg_[0-9a-f]{32}):(\d{1,15})$/.exec(header)
    if (!found?.[1]) throw badCursor()
    return { message: found[1], seq: Number(found[2]) }
  }
  const [text, ...others] = query.getAll('starting_after')
  if (text === undefined) return undefined
  if (others.length > 0 || !/^\d{1,15}$/.test(text)) throw badCursor()
  return { seq: Number(text) }
}

function badCursor(): GatewayError {
  return new GatewayError('invalid_last_event_id')
}
