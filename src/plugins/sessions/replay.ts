// A repeated send with the same Idempotency-Key gets the first answer again, streamed or whole. Only reads.

import { GatewayError, asGatewayError } from '../../errors.ts'
import type { ErrorCode } from '../../errors.ts'
import { json, refOf } from '../../exchange.ts'
import type { Answer, Exchange } from '../../exchange.ts'
import { isId } from '../../ids.ts'
import { toPublic } from '../../sessions/message.ts'
import type { StoredMessage } from '../../sessions/message.ts'
import type { MessagePlace } from '../../sessions/streams/stream-rows.ts'
import { messagePath } from '../../sessions/streams/streams.ts'
import type { Streams } from '../../sessions/streams/streams.ts'
import { parseSend } from '../../sessions/sending/turns.ts'
import type { Send, SendLimits } from '../../sessions/sending/turns.ts'
import { idsOf } from './route.ts'
import { resume } from './stream.ts'

/** The place of an answer, and the message that it answers. */
export interface SentPlace {
  readonly place: MessagePlace
  /** Id of the last message that the client sent. */
  readonly user: string
}

const nothingThere: ReadonlySet<ErrorCode> = new Set(['message_not_found', 'stream_expired'])

interface Repetition {
  readonly pointer: string
  readonly limits: SendLimits
}

export async function replay(
  streams: Streams,
  x: Exchange,
  { pointer, limits }: Repetition,
): Promise<Answer> {
  const [message = '', user = ''] = pointer.split(' ')
  if (!isId('msg', message)) throw new GatewayError('message_not_found')
  const place = { ref: refOf(x), session: idsOf(x).session, message }
  try {
    const isStream = wantsStream(parseSend(x.body, limits), x)
    return await (isStream
      ? streamed(streams, x, { place, user })
      : whole(streams, { place, user }))
  } catch (thrown) {
    const error = asGatewayError(thrown)
    if (!nothingThere.has(error.code) || (await isKept(streams, place))) throw error
    // The first try was refused meanwhile, so the Idempotency-Key is free again.
    throw new GatewayError('idempotency_in_progress', { cause: error })
  }
}

async function isKept(streams: Streams, place: MessagePlace): Promise<boolean> {
  const missing = await streams.look(place).then(() => undefined, asGatewayError)
  return missing?.code !== 'message_not_found'
}

async function streamed(streams: Streams, x: Exchange, asked: SentPlace): Promise<Answer> {
  const answer = await resume(streams, x, { message: asked.place.message, isReplay: true })
  return { ...answer, headers: { ...answer.headers, ...userHeader(asked) } }
}

async function whole(streams: Streams, asked: SentPlace): Promise<Answer> {
  const found = await streams.look(asked.place)
  if (found.status === 'in_progress') {
    throw new GatewayError('idempotency_in_progress')
  }
  return shown(found, asked)
}

export function shown(message: StoredMessage, asked: SentPlace): Answer {
  const { place } = asked
  const own = { 'X-Message-Id': place.message, 'Content-Location': messagePath(place) }
  return json(toPublic(message, place.session), 200, { ...own, ...userHeader(asked) })
}

export function userHeader({ user }: SentPlace): Record<string, string> {
  return { 'X-User-Message-Id': user }
}

/** `stream` in the body decides; without it, Accept does. */
export function wantsStream({ stream }: Pick<Send, 'stream'>, { headers }: Exchange): boolean {
  const accept = (headers.accept ?? '').toLowerCase()
  return stream ?? (!accept.includes('application/json') || accept.includes('text/event-stream'))
}
