// Knows which answers are still due on a connection. So a parse error is never answered in the middle of another
// answer, and a client cannot start exchanges without end by pipelining on one connection.

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { GatewayError } from '../errors.ts'
import { newId } from '../ids.ts'
import { linger } from '../http/linger.ts'
import { rawRefusal, sendError } from '../http/reply.ts'

interface DueAnswers {
  /** The newest answer; the answers before it are written first. */
  newest: ServerResponse
  /** How many unfinished requests came while another answer was due. */
  pipelined: number
  /** The connection's last answer is due or was given. */
  isClosing: boolean
}

const answersDue = new WeakMap<Duplex, DueAnswers>()

const maxPipelined = 32

/**
 * Called for every request. Returns `refuse` when too many requests wait on the connection: the caller's refusal must
 * close it. Requests after that get `ignore`, and no answer: a thousand refusals at once took 5 MB.
 */
export function noteAnswer(
  req: IncomingMessage,
  res: ServerResponse,
): 'take' | 'refuse' | 'ignore' {
  const due = answersDue.get(req.socket)
  if (!due) {
    answersDue.set(req.socket, { newest: res, pipelined: 0, isClosing: false })
    return 'take'
  }
  if (due.isClosing) return 'ignore'
  const isPipelined = !due.newest.writableFinished
  due.newest = res
  if (!isPipelined) return 'take'
  due.pipelined++
  res.once('close', () => due.pipelined--)
  due.isClosing = due.pipelined > maxPipelined
  return due.isClosing ? 'refuse' : 'take'
}

const refused = new WeakSet<Duplex>()

/**
 * Answers a request that could not be parsed, then closes. If another answer is due or has begun, it only closes.
 * @returns the answer's request id, if there was an answer.
 */
export function refuseUnparsed(socket: Duplex, error: GatewayError): string | undefined {
  // Bytes that arrive during `linger` are not a request either.
  if (refused.has(socket)) return undefined
  refused.add(socket)
  const res = answersDue.get(socket)?.newest
  const isDue = res !== undefined && !res.writableFinished
  const isOthersTurn = isDue && !mayCarryRefusal(res)
  if (!socket.writable || isOthersTurn) {
    socket.destroy()
    return undefined
  }
  const hasBegun = isDue && res.headersSent
  const id = newId('req')
  if (!isDue) socket.write(rawRefusal(error, id))
  // Written with `res`: the exchange may still refuse a body that never ends, and must see that an answer has begun.
  else if (!hasBegun) sendError(res, { id, replyHeaders: {} }, error)
  linger(socket, () => endWithin(socket, closingMs))
  return hasBegun ? undefined : id
}

/** A client that reads nothing has so long to take the refusal. */
const closingMs = 30_000

function endWithin(socket: Duplex, ms: number): void {
  const closing = setTimeout(() => socket.destroy(), ms).unref()
  socket.end(() => {
    clearTimeout(closing)
    socket.destroy()
  })
}

/** Whether the parser failed within this answer's own request, which has no answer yet, or a refusal that closes anyway. */
function mayCarryRefusal(res: ServerResponse): boolean {
  const isReadingRequest = res.socket !== null && !res.req.complete
  const isUnanswered = !res.headersSent
  const closesAnyway = !res.shouldKeepAlive
  return isReadingRequest && (isUnanswered || closesAnyway)
}
