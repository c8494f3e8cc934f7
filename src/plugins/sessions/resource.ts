// Sessions as a resource: create, list, show, change, delete.

import type { Limits } from '../../config/config.ts'
import { GatewayError } from '../../errors.ts'
import { answering, json, refOf } from '../../exchange.ts'
import type { Answer, Exchange, Route } from '../../exchange.ts'
import type { Gateway } from '../../plugin.ts'
import { parseFields } from '../../http/fields.ts'
import { pageQuery, parseIdPage } from '../../http/page.ts'
import { invalid } from '../../http/refusals.ts'
import { mayUse, quotaOf } from '../../accounts/plan.ts'
import type { Generations } from '../../sessions/streams/generations.ts'
import type { Lost } from '../../sessions/streams/lost.ts'
import type { ListedSession, Session, SessionBook, SessionFields } from '../../sessions/sessions.ts'
import { sessionSchema } from '../../sessions/session-fields.ts'
import { sessionsPath } from '../../sessions/message.ts'
import { idsOf, route } from './route.ts'

export interface ResourceParts {
  readonly gateway: Gateway
  readonly book: SessionBook
  readonly lost: Lost
  readonly generations: Generations
}

export function resourceRoutes(parts: ResourceParts): readonly Route[] {
  const { gateway, book, generations } = parts
  const maxBytes = gateway.config.limits.jsonApiBytes
  return [
    route('POST', '', {
      maxBytes,
      creates: true,
      begin: withFields(parts, async (x, fields) => {
        const quota = quotaOf(gateway.config, x)
        return created(await book.create(refOf(x), fields, { claim: x.claim, ...quota }))
      }),
      // Answers the session as it is now: its first state is not kept.
      replay: async (x, id) => created(await book.read(refOf(x), id)),
    }),
    route('GET', '', {
      query: pageQuery,
      begin: answering(async (x) => {
        const list = await book.list(refOf(x), parseIdPage(x.query, 'sess', 'desc'))
        const data = await Promise.all(list.data.map((session) => freedInList(parts, x, session)))
        return json({ ...list, data })
      }),
    }),
    route('GET', '/:id', {
      begin: answering(async (x) =>
        json(await freed(parts, x, await book.read(refOf(x), idsOf(x).session))),
      ),
    }),
    route('PATCH', '/:id', {
      maxBytes,
      begin: withFields(parts, async (x, fields) => {
        const quota = quotaOf(gateway.config, x)
        return json(await book.patch(refOf(x), idsOf(x).session, fields, quota))
      }),
    }),
    route('DELETE', '/:id', {
      begin: answering(async (x) => {
        const { session } = idsOf(x)
        const files = gateway.shelf?.book
        await files?.expectRemoval(refOf(x), session)
        await book.remove(refOf(x), session)
        // This stops generations of this process; other owners learn of the deletion at their next append.
        generations.cancelIn(session)
        // When this fails, the sweeper removes the files soon; no client can read them any more.
        await files?.removeSession(refOf(x), session).catch(() => undefined)
        return { status: 204, body: '' }
      }),
    }),
  ]
}

/** Reports an invalid body before an unauthorised key: that needs no answer from Redis. `serve` checks the model. */
function withFields(
  { gateway }: ResourceParts,
  serve: (x: Exchange, fields: SessionFields) => Promise<Answer>,
): Route['begin'] {
  return (x) => {
    let fields: SessionFields = {}
    return {
      identify: () => void (fields = readFields(x, gateway.config.limits)),
      serve: async () => serve(x, withModel(gateway, x, fields)),
    }
  }
}

/** Ends the session's message when its owner is gone, which frees the session. Returns the session as it is then. */
async function freed(parts: ResourceParts, x: Exchange, session: Session): Promise<Session> {
  return (await isFreed(parts, x, session)) ? await parts.book.read(refOf(x), session.id) : session
}

async function freedInList(
  parts: ResourceParts,
  x: Exchange,
  session: ListedSession,
): Promise<ListedSession> {
  if (!(await isFreed(parts, x, session))) return session
  const { instructions: _, ...listed } = await parts.book.read(refOf(x), session.id)
  return listed
}

async function isFreed({ lost }: ResourceParts, x: Exchange, session: ListedSession) {
  const { id, active_message_id: message } = session
  return message !== null && (await lost.finish({ ref: refOf(x), session: id, message }))
}

function created(session: Session): Answer {
  return json(session, 201, { Location: `${sessionsPath}/${session.id}` })
}

function readFields({ body }: Exchange, { instructionsBytes }: Limits): SessionFields {
  const fields = parseFields(body, sessionSchema)
  const { instructions } = fields
  if (instructions && Buffer.byteLength(instructions) > instructionsBytes) {
    throw invalid('instructions', `has more than ${instructionsBytes} bytes of UTF-8`)
  }
  return fields
}

/** Replaces an alias by the model's id. */
function withModel(
  { config, findModel }: Gateway,
  { identity }: Exchange,
  fields: SessionFields,
): SessionFields {
  if (fields.model === undefined || fields.model === null) return fields
  const model = findModel(fields.model)
  if (!model) throw new GatewayError('model_not_found', { param: 'model' })
  if (!identity || !mayUse(identity, model, config)) {
    throw new GatewayError('model_not_allowed', { param: 'model' })
  }
  return { ...fields, model: model.id }
}
