// What the routes of sessions have in common.

import type { Config, Model } from '../../config/config.ts'
import { GatewayError } from '../../errors.ts'
import { json } from '../../exchange.ts'
import type { Answer, Exchange, Identity, Route } from '../../exchange.ts'
import type { Gateway } from '../../plugin.ts'
import { mayUse } from '../../accounts/plan.ts'
import { messagePath, sessionsPath, toPublic } from '../../sessions/message.ts'
import type { StoredMessage } from '../../sessions/message.ts'
import type { Send } from '../../sessions/sending/parse-send.ts'
import type { MessagePlace } from '../../sessions/streams/stream-rows.ts'

/** `path` is relative to that of sessions. The route takes a JSON body when `maxBytes` is given. */
export function route(
  method: Route['method'],
  path: string,
  more: Pick<Route, 'begin'> & Partial<Route>,
): Route {
  const body = more.maxBytes === undefined ? 'none' : 'json'
  return { method, path: sessionsPath + path, access: 'sessions', body, ...more }
}

/** The ids in the path; '' for an id that the path does not have. */
export function idsOf({ params }: Exchange): {
  readonly session: string
  readonly message: string
} {
  return { session: params.id ?? '', message: params.mid ?? '' }
}

/** The model of this name; without a name, the first that can chat and that the caller may use. */
export function modelOf(
  { config, findModel }: Gateway,
  name: string | undefined,
  identity: Identity | undefined,
): Model {
  const model = name === undefined ? firstOf(config, identity) : findModel(name)
  if (!model?.endpoints.includes('chat')) {
    throw new GatewayError('model_not_found', { param: 'model' })
  }
  return model
}

/** When the caller may use none, or is not known yet, the first model: admission then refuses it. */
function firstOf(config: Config, identity: Identity | undefined): Model | undefined {
  const chatting = [...config.models.values()].filter(({ endpoints }) => endpoints.includes('chat'))
  return chatting.find((model) => identity && mayUse(identity, model, config)) ?? chatting[0]
}

/** An answer, and the message that it answers. */
export interface MessagePair {
  readonly place: MessagePlace
  /** Id of the last message that the client sent. */
  readonly user: string
}

export function shown(message: StoredMessage, pair: MessagePair): Answer {
  const { place } = pair
  const own = { 'X-Message-Id': place.message, 'Content-Location': messagePath(place) }
  return json(toPublic(message, place.session), 200, { ...own, ...userHeader(pair) })
}

export function userHeader({ user }: MessagePair): Record<string, string> {
  return { 'X-User-Message-Id': user }
}

/** `stream` in the body decides; without it, Accept does. */
export function wantsStream({ stream }: Pick<Send, 'stream'>, { headers }: Exchange): boolean {
  const accept = (headers.accept ?? '').toLowerCase()
  return stream ?? (!accept.includes('application/json') || accept.includes('text/event-stream'))
}

/** Calls `then` when the client leaves, at once if it has left already. */
export function whenLeft({ left }: Exchange, then: () => void): void {
  left.addEventListener('abort', then)
  if (left.aborted) then()
}
