// How a stream may end, and what its client gets last.

import { errorBody } from '../errors.ts'
import type { GatewayError } from '../errors.ts'
import type { SseEvent } from '../exchange.ts'
import { verdictOn } from './backend-status.ts'
import { doneData, latin1, lengthChunk } from './frames.ts'
import { judge } from './generating.ts'
import type { Generation } from './generating.ts'

export type Ending =
  | { readonly kind: 'complete' }
  /** Out of money or past its bound: ends as if the model had reached its length. */
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
