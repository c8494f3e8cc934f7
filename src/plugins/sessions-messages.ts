// The messages of a session, read: a page of them, oldest first, or one.

import type { Route } from '../plugin.ts'
import type { MessageBook } from '../sessions/messages.ts'
import { toPublic } from '../sessions/message.ts'
import { idsOf, json, pageOf, refOf, sessionsPath } from './sessions-route.ts'

export function messageRoutes(messages: MessageBook): readonly Route[] {
  return [
    {
      method: 'GET',
      path: `${sessionsPath}/:id/messages`,
      access: 'sessions',
      body: 'none',
      async serve(x) {
        const { session } = idsOf(x)
        return json(await messages.list(refOf(x), session, pageOf(x, 'msg', 'asc')))
      },
    },
    {
      method: 'GET',
      path: `${sessionsPath}/:id/messages/:mid`,
      access: 'sessions',
      body: 'none',
      async serve(x) {
        const { session, message } = idsOf(x)
        return json(toPublic(await messages.read(refOf(x), session, message), session))
      },
    },
  ]
}
