// A way to get more than was paid for: what is sent to which model, and when the client leaves.

import type { Account } from '../../test/fixtures/gateway.ts'
import type { Random } from '../../test/fixtures/random.ts'
import type { Leaving } from './client.ts'
import type { Body } from './loads.ts'
import type { ModelName } from './models.ts'

/** `cancel`: a session's message is cancelled at the moment at which others would leave. */
export type Mount = 'v1' | 'completions' | 'embeddings' | 'rerank' | 'session' | 'cancel'

export interface Strategy {
  readonly name: string
  /** The number of the finding; 0 is an honest client. */
  readonly item: number
  readonly model: ModelName
  readonly mount?: Mount
  readonly leaving: Leaving
  readonly balance?: number
  /** The account to use; by default a new one. */
  readonly account?: Account
  /** The client is no thief: it must not pay more than 1.3 times the truth. */
  readonly isHonest?: boolean
  /** The most balance tokens that the client may pay, whatever the backend reports. */
  readonly mostTokens?: number
  /** The body without `model`, which is added; a string is sent as it is. */
  body(random: Random): Body | string
}

export const last: Leaving = { at: 'last' }
export const stays: Leaving = { at: 'end' }
export const finish: Leaving = { at: 'finish' }
/** The client leaves when all is generated, and does not wait for the answer. */
export const made: Leaving = { at: 'made' }
export const afterEvents = (nth: number): Leaving => ({ at: 'content', nth })

export const streamed = { stream: true, max_tokens: 40 }
