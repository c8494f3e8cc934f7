// Reads the messages of a session: a page, oldest first, or one. An unfinished message is shown with its words so far.

import { pageQuery, parseIdPage } from '../../http/page.ts'
import { answering, json, refOf } from '../../exchange.ts'
import type { Route } from '../../exchange.ts'
import type { MessageBook } from '../../sessions/messages.ts'
import { toPublic } from '../../sessions/message.ts'
import type { MessagePlace } from '../../sessions/streams/stream-rows.ts'
import type { Streams } from '../../sessions/streams/streams.ts'
import { idsOf, route } from './route.ts'

export function messageRoutes(messages: MessageBook, streams: Streams): readonly Route[] {
  const look = async (place: MessagePlace) => toPublic(await streams.look(place), place.session)
  return [
    route('GET', '/:id/messages', {
      query: pageQuery,
      begin: answering(async (x) => {
        const { session } = idsOf(x)
        const ref = refOf(x)
        const list = await messages.list({ ref, session }, parseIdPage(x.query, 'msg', 'asc'))
        const shown = list.data.map(async (message) =>
          message.status === 'in_progress' ? look({ ref, session, message: message.id }) : message,
        )
        return json({ ...list, data: await Promise.all(shown) })
      }),
    }),
    route('GET', '/:id/messages/:mid', {
      begin: answering(async (x) => json(await look({ ref: refOf(x), ...idsOf(x) }))),
    }),
  ]
}
