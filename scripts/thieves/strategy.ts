// A way to get more than was paid for: what is sent to which model, and when its sender goes.

import type { Account } from '../../test/fixtures/gateway.ts'
import type { Random } from '../../test/fixtures/random.ts'
import type { Leaving } from './client.ts'
import type { Body } from './loads.ts'
import type { ModelName } from './models.ts'

/** `cancel`: in a session, at the moment at which others would leave. */
export type Mount = 'v1' | 'completions' | 'embeddings' | 'rerank' | 'session' | 'cancel'

export interface Strategy {
  readonly name: string
  /** Of the findings; 0 is an honest client. */
  readonly item: number
  readonly model: ModelName
  readonly mount?: Mount
  readonly leaving: Leaving
  readonly balance?: number
  /** In place of one of its own. */
  readonly account?: Account
  /** Not a thief: must not pay more than 1.3 of the truth. */
  readonly isHonest?: boolean
  /** Balance tokens that it may cost, whatever the backend says. */
  readonly mostTokens?: number
  /** `model` is added; a text is sent as it is. */
  body(random: Random): Body | string
}

export const last: Leaving = { at: 'last' }
export const stays: Leaving = { at: 'end' }
export const finish: Leaving = { at: 'finish' }
/** All is done, and nobody waits for the answer. */
export const made: Leaving = { at: 'made' }
export const afterEvents = (nth: number): Leaving => ({ at: 'content', nth })

export const streamed = { stream: true, max_tokens: 40 }
