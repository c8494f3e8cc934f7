// A stream whose 200 goes out before its backend has answered: the client gets heartbeats while the backend queues the
// request, and an error that would have been a status is the stream's last event. No other target is asked any more.

import { asGatewayError, errorBody } from '../errors.ts'
import { heartbeat, sseHeaders } from '../http/sse.ts'
import type { StreamOut } from '../http/client-stream.ts'
import type { Answer } from '../exchange.ts'
import { latin1, linesOf } from './frames.ts'
import { givenUp } from './generating.ts'
import type { Generation } from './generating.ts'
import type { Relay } from './relay.ts'

/** `opening` is the stream to come, or the refusal in its place. */
export function committed(generation: Generation, opening: Promise<Relay | Answer>): Answer {
  generation.isCommitted = true
  const stream = async (out: StreamOut) => {
    const { heartbeatMs } = generation
    const beating = heartbeatMs && setInterval(() => void out.write(heartbeat), heartbeatMs)
    const opened = await opening.catch((thrown: unknown) => failure(generation, thrown))
    clearInterval(beating)
    out.write(typeof opened === 'string' ? opened : await restOf(generation, { opened, out }))
  }
  return { status: 200, headers: sseHeaders, stream }
}

async function restOf(
  { grammar }: Generation,
  { opened, out }: { readonly opened: Relay | Answer; readonly out: StreamOut },
): Promise<string> {
  if ('pump' in opened) return (await opened.pump(out)).frames
  const body = 'body' in opened ? opened.body : ''
  return grammar.frame({ event: undefined, data: linesOf(body) })
}

async function failure(generation: Generation, thrown: unknown): Promise<string> {
  const error = asGatewayError(await givenUp(generation, thrown))
  const data = latin1(errorBody(error, generation.x.id))
  return generation.grammar.frame({ event: undefined, data })
}
