// What the parts of one generation share, and how its end is told.

import type { BackendAnswer } from '../backend/sending.ts'
import type { Meter } from '../backend/usage.ts'
import type { Limits, Target } from '../config/config.ts'
import { GatewayError } from '../errors.ts'
import type { Exchange, Outcome, Run } from '../exchange.ts'
import { ClientLeft } from '../http/body.ts'
import type { Deadline } from './deadline.ts'
import type { Grammar } from './frames.ts'
import type { ChatRequest } from './request.ts'

export interface GenerationOptions {
  readonly run: Run
  readonly request: ChatRequest
  readonly limits: Limits
  readonly grammar: Grammar
  /** A silent stream gets a comment this often; not given, its readers see to it. */
  readonly heartbeatMs?: number
}

/** What the parts of a generation share. */
export interface Generation extends GenerationOptions {
  readonly x: Exchange
  readonly target: Target
  readonly meter: Meter
  readonly deadline: Deadline
  /** `performance.now()` when the request had gone out whole; 0 before. */
  sentAtMs: number
  /** The backend is read to its usage though nobody waits for the answer any more: to abort it would hide what it used. */
  readonly finishesAlone: boolean
  /** 200 went out before the backend had answered. */
  isCommitted: boolean
  /** Nobody is to hear more of it; set where it finishes alone. */
  cancelled: GatewayError | undefined
}

/** A model that says nothing of it: streams are counted as they come, of a whole answer nothing is known before its end. */
export function finishesAlone({ model, row, stream }: ChatRequest): boolean {
  return row.generates && (model.onLeave === undefined ? !stream : model.onLeave === 'finish')
}

/** Of a generation that has just ended. */
export function outcome({ x, sentAtMs, isCommitted }: Generation, said: number): Outcome {
  if (sentAtMs > 0) x.facts.upstreamMs = performance.now() - sentAtMs
  const status = isCommitted ? 200 : said
  return { status, clientLeft: false, backendAsked: sentAtMs > 0, complete: true, cut: false }
}

/** Settles a generation that failed before it answered; what to tell the client. */
export async function givenUp(generation: Generation, thrown: unknown): Promise<unknown> {
  const { deadline, run } = generation
  deadline.stop()
  const error: unknown = deadline.signal.aborted ? deadline.signal.reason : thrown
  await run.finish(endedBy(generation, error))
  return error
}

/** Nothing of it had gone out to the client. */
function endedBy(generation: Generation, thrown: unknown): Outcome {
  const error = generation.cancelled ?? thrown
  const clientLeft = error instanceof ClientLeft || generation.x.hasLeft
  const status = clientLeft ? 499 : error instanceof GatewayError ? error.status : 500
  return {
    ...outcome(generation, status),
    clientLeft,
    complete: false,
    ...(error instanceof GatewayError ? { error } : {}),
  }
}

const nothing = Buffer.alloc(0)

/** The answer has begun, so no other target will be asked: an answer of half an hour must not hold the memory of its question. */
export function forgetBody(generation: Generation, { isSent }: BackendAnswer): void {
  const { x, request } = generation
  x.body = nothing
  x.memory.keep(request.forgetBody({ isSent: isSent() }))
}
