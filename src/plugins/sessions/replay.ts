// A repeated send with the same Idempotency-Key gets the first answer again, streamed or whole. Only reads.

import { GatewayError, asGatewayError } from '../../errors.ts'
import type { ErrorCode } from '../../errors.ts'
import { refOf } from '../../exchange.ts'
import type { Answer, Exchange } from '../../exchange.ts'
import { isId } from '../../ids.ts'
import type { MessagePlace } from '../../sessions/streams/stream-rows.ts'
import type { Streams } from '../../sessions/streams/streams.ts'
import { parseSend } from '../../sessions/sending/parse-send.ts'
import type { SendLimits } from '../../sessions/sending/parse-send.ts'
import { idsOf, shown, userHeader, wantsStream } from './route.ts'
import type { MessagePair } from './route.ts'
import { resume } from './stream.ts'

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

async function streamed(streams: Streams, x: Exchange, pair: MessagePair): Promise<Answer> {
  const answer = await resume(streams, x, { message: pair.place.message, isReplay: true })
  return { ...answer, headers: { ...answer.headers, ...userHeader(pair) } }
}

async function whole(streams: Streams, pair: MessagePair): Promise<Answer> {
  const found = await streams.look(pair.place)
  if (found.status === 'in_progress') {
    throw new GatewayError('idempotency_in_progress')
  }
  return shown(found, pair)
}
