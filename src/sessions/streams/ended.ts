// Makes the final row of a message: what was said, how the message ended, what it cost.

import type { Ending } from '../../chat/relay.ts'
import { GatewayError } from '../../errors.ts'
import type { Facts } from '../../exchange.ts'
import type { Assembly } from './assembly.ts'
import type { MessageStatus, StoredMessage } from '../message.ts'

export interface Fate {
  readonly status: MessageStatus
  readonly error?: GatewayError | undefined
}

interface HowEnded extends Fate {
  readonly said: Assembly
  /** Balance tokens. */
  readonly cost: number
  readonly usage?: UsedTokens | undefined
}

interface UsedTokens {
  readonly prompt: number
  readonly completion: number
  readonly estimated: boolean
}

export function ended(draft: StoredMessage, how: HowEnded): StoredMessage {
  const { said, status, error, cost, usage } = how
  const { hold: _, ...row } = draft
  const { content, reasoning, tool_calls, finish_reason } = said.result()
  return {
    ...row,
    content,
    ...(reasoning !== undefined && { reasoning }),
    ...(tool_calls !== undefined && { tool_calls }),
    finish_reason,
    status,
    cost,
    usage: usage ? toUsage(usage) : null,
    error: error && status !== 'cancelled' ? toError(error) : null,
    completed_at: Math.floor(Date.now() / 1000),
  }
}

/** Cost and usage, as the settlement noted them. */
export function usedBy(facts: Facts): Pick<HowEnded, 'cost' | 'usage'> {
  const { promptTokens = 0, completionTokens = 0, estimated = false, cost = 0, basis } = facts
  const usage = { prompt: promptTokens, completion: completionTokens, estimated }
  return { cost, usage: basis === undefined || basis === 'none' ? undefined : usage }
}

export function statusOf(ending: Ending): Fate {
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

function toUsage({ prompt, completion, estimated }: UsedTokens): StoredMessage['usage'] {
  const total_tokens = prompt + completion
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens, estimated }
}

function toError({ message, type, param, code }: GatewayError): StoredMessage['error'] {
  return { message, type, param: param ?? null, code }
}
