// Makes the final row of a message: what was said, how the message ended, what it cost.

import type { Ending } from '../../chat/endings.ts'
import { GatewayError } from '../../errors.ts'
import type { Facts } from '../../exchange.ts'
import { noTokens, toUsage } from '../../tokens/token-counts.ts'
import type { TokenCounts } from '../../tokens/token-counts.ts'
import type { Assembly } from './assembly.ts'
import type { MessageStatus, StoredMessage } from '../message.ts'

export interface FinalStatus {
  readonly status: MessageStatus
  readonly error?: GatewayError | undefined
}

interface HowEnded extends FinalStatus {
  readonly said: Assembly
  /** Balance tokens. */
  readonly cost: number
  readonly usage?: UsedTokens | undefined
}

interface UsedTokens extends TokenCounts {
  readonly estimated: boolean
}

export function ended(draft: StoredMessage, how: HowEnded): StoredMessage {
  const { said, status, error, cost, usage } = how
  const { hold: _, ...row } = draft
  return {
    ...row,
    ...said.result(),
    status,
    cost,
    usage: usage ? { ...toUsage(usage), estimated: usage.estimated } : null,
    error: error && status !== 'cancelled' ? toError(error) : null,
    completed_at: Math.floor(Date.now() / 1000),
  }
}

/** Cost and usage, as the settlement noted them. */
export function usedBy(facts: Omit<Facts, 'flushes'>): Pick<HowEnded, 'cost' | 'usage'> {
  const { tokens = noTokens, estimated = false, cost = 0, basis } = facts
  const isNone = basis === undefined || basis === 'none'
  return { cost, usage: isNone ? undefined : { ...tokens, estimated } }
}

export function statusOf(ending: Ending): FinalStatus {
  if (ending.kind === 'complete' || ending.kind === 'length') return { status: 'completed' }
  if (ending.kind === 'relayed-error') {
    return { status: 'failed', error: new GatewayError('upstream_error', { source: 'backend' }) }
  }
  if (ending.kind === 'left') return { status: 'cancelled' }
  return { status: statusAfter(ending.error), error: ending.error }
}

/** For an answer that had begun before the error. */
export function statusAfter({ code }: GatewayError): MessageStatus {
  if (code === 'message_cancelled') return 'cancelled'
  return code === 'upstream_incomplete' || code === 'server_draining' ? 'incomplete' : 'failed'
}

function toError({ message, type, param, code }: GatewayError): StoredMessage['error'] {
  return { message, type, param: param ?? null, code }
}
