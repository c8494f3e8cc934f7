// What the parts of one generation share, how it may end, and who is told: its client, its target, the plugins.

import type { BackendAnswer } from '../backend/forward.ts'
import type { Candidates, Seat, Targets } from '../backend/targets.ts'
import type { Meter } from '../backend/usage.ts'
import type { Limits, Target } from '../config/config.ts'
import { asGatewayError, errorBody, GatewayError } from '../errors.ts'
import type { Exchange, Outcome, Run, SseEvent } from '../exchange.ts'
import { ClientLeft } from '../http/body.ts'
import type { StopReason } from '../ledger/hold.ts'
import { verdictOn } from './backend-status.ts'
import type { Deadline } from './deadline.ts'
import { doneData, latin1, lengthChunk } from './frames.ts'
import type { Grammar } from './frames.ts'
import type { ChatRequest } from './request.ts'

export interface GenerationOptions {
  readonly run: Run
  readonly request: ChatRequest
  readonly limits: Limits
  readonly targets: Targets
  readonly grammar: Grammar
  /** A silent stream gets a comment this often. Without it, the stream's readers get theirs elsewhere. */
  readonly heartbeatMs?: number
}

export interface Stoppable {
  /** Called when the ledger stops the work. */
  stop(reason: StopReason): void
  /** Hands no further event on, and counts none, before `until` has resolved. */
  pause(until: Promise<unknown>): void
}

/** What the parts of a generation share. */
export interface Generation extends GenerationOptions {
  readonly x: Exchange
  readonly deadline: Deadline
  readonly candidates: Candidates
  /** The target that is asked, or was asked last. */
  target: Target
  /** Meters the target's answer. */
  meter: Meter
  /** The target's answer, when its headers have come. */
  backend: BackendAnswer | undefined
  /** The seat at the target, when its answer's headers have come. */
  seat: Seat | undefined
  /** `performance.now()` when the target's request had gone out whole; 0 before. */
  sentAtMs: number
  /** 200 went out before the backend had answered. */
  isCommitted: boolean
  /** Stops the stream. Undefined until the target's stream has begun. */
  relay: Stoppable | undefined
  /** Set when a generation that finishes alone was cancelled: nobody gets more of it. */
  cancelled: GatewayError | undefined
}

/** Whether the backend is read to its usage even if nobody waits for the answer any more: an abort would hide what it used. When the model sets no `onLeave`, only an answer that is not streamed finishes alone: a stream is counted as it comes, but of a whole answer nothing is known before its end. */
export function finishesAlone({ model, row, stream }: ChatRequest): boolean {
  return row.generates && (model.onLeave === undefined ? !stream : model.onLeave === 'finish')
}

/** The outcome of a generation that has just ended; `ifNone` is the status if none has gone out. */
export function outcome({ x, sentAtMs, isCommitted }: Generation, ifNone: number): Outcome {
  if (sentAtMs > 0) x.facts.upstreamMs = performance.now() - sentAtMs
  const status = isCommitted ? 200 : ifNone
  return { status, clientLeft: false, backendAsked: sentAtMs > 0, complete: true, cut: false }
}

/** The error of an answer that ended too early. No retry after content: the content is charged. */
export function incomplete({ sawContent }: Meter): GatewayError {
  return new GatewayError('upstream_incomplete', { source: 'backend', retry: !sawContent })
}

/** Tells the target's state how an attempt has ended. */
export function judge(seat: Seat | undefined, verdict: ReturnType<typeof verdictOn>): void {
  if (verdict) seat?.[verdict]()
}

/** How a stream may end. */
export type Ending =
  | { readonly kind: 'complete' }
  /** Out of money, without its hold, or past its bound: ends as if the model had reached its length. */
  | { readonly kind: 'length'; readonly cut: boolean }
  /** The backend's own error, masked. */
  | { readonly kind: 'relayed-error'; readonly event: SseEvent }
  | { readonly kind: 'failed'; readonly error: GatewayError }
  | { readonly kind: 'left' }

/** The frames of the terminal; none when the client has left. */
export function terminal(generation: Generation, ending: Ending): string {
  const { x, request, meter, grammar } = generation
  const ownFrame = (data: string) => grammar.frame({ event: undefined, data })
  if (ending.kind === 'complete') return ownFrame(doneData)
  if (ending.kind === 'length') {
    const { endpoint } = request.row
    const frames = meter.unfinished.map((index) =>
      ownFrame(lengthChunk({ id: x.id, model: request.model.id, endpoint, index })),
    )
    return frames.join('') + ownFrame(doneData)
  }
  if (ending.kind === 'relayed-error') return grammar.frame(ending.event)
  if (ending.kind === 'failed') return ownFrame(latin1(errorBody(ending.error, x.id)))
  return ''
}

/** Tells the target's state how a stream has ended. */
export function judgeEnding({ seat }: Generation, ending: Ending): void {
  if (ending.kind === 'complete' || ending.kind === 'length') seat?.succeeded()
  if (ending.kind === 'relayed-error') seat?.suspected()
  if (ending.kind === 'failed') judge(seat, verdictOn(ending.error))
}

/** Settles a generation that failed before anything of a backend's answer was handed on, and returns the error for the client. */
export async function givenUp(generation: Generation, thrown: unknown): Promise<unknown> {
  const { deadline, run } = generation
  deadline.stop()
  const error: unknown = deadline.signal.aborted ? deadline.signal.reason : thrown
  await run.finish(endedBy(generation, error))
  return error
}

/** The outcome when nothing of a backend's answer was handed on. */
function endedBy(generation: Generation, thrown: unknown): Outcome {
  const { cancelled, x } = generation
  const clientLeft = x.left.aborted || (!cancelled && thrown instanceof ClientLeft)
  // What a signal throws when the client leaves is no failure.
  const isDeparture = clientLeft && !(thrown instanceof GatewayError)
  const error = cancelled ?? (isDeparture ? undefined : asGatewayError(thrown))
  const status = clientLeft ? 499 : (error?.status ?? 500)
  return { ...outcome(generation, status), clientLeft, complete: false, ...(error && { error }) }
}

/** No other target will be asked. The request's memory must not be kept for an answer that may take half an hour. */
export function forgetBody(generation: Generation, { isSent }: BackendAnswer): void {
  const { x, request } = generation
  x.forgetBody()
  x.memory.keep(request.forgetBody({ isSent: isSent() }))
}
