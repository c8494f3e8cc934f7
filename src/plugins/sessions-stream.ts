// The stream of a message, read from any place on, by any number of clients, from any instance; and its cancel.

import { refOf } from '../caller.ts'
import { GatewayError } from '../errors.ts'
import type { Answer, Exchange, Route } from '../exchange.ts'
import { toPublic } from '../sessions/message.ts'
import type { SessionBook } from '../sessions/sessions.ts'
import type { Streams } from '../sessions/streams.ts'
import { idsOf, json, route } from './sessions-route.ts'

export function streamRoutes(streams: Streams, book: SessionBook): readonly Route[] {
  return [
    route('GET', '/:id/messages/:mid/stream', {
      abortOnLeave: true,
      query: ['starting_after'],
      serve: (x) => resume(streams, x, { message: idsOf(x).message }),
    }),
    route('GET', '/:id/stream', {
      abortOnLeave: true,
      query: ['starting_after'],
      async serve(x) {
        const { active_message_id } = await book.read(refOf(x), idsOf(x).session)
        if (active_message_id === null) return nothing
        return await resume(streams, x, { message: active_message_id })
      },
    }),
    route('POST', '/:id/messages/:mid/cancel', {
      async serve(x) {
        const { session, message } = idsOf(x)
        return json(toPublic(await streams.cancel({ ref: refOf(x), session, message }), session))
      },
    }),
  ]
}

const nothing: Answer = { status: 204, body: '' }

interface Which {
  /** Not given: the one that Last-Event-ID names. */
  readonly message?: string
  /** Of a send that is sent again: nothing is missing that was never asked for. */
  readonly isReplay?: boolean
}

/** 200, or 204 where nothing follows. */
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
  /** Not said by `starting_after`. */
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
