// An account's balance, and what it was spent on. Amounts are whole tokens of the balance.

import { listAt } from './list.ts'
import type { List, ListParams } from './list.ts'
import type { TokenUsage } from './chunk.ts'
import { pathTo } from './transport.ts'
import type { CallOptions, Transport } from './transport.ts'

export interface Balance {
  readonly object: 'billing.balance'
  readonly unit: string
  /** The granted tokens less the spent ones. */
  readonly balance: number
  /** Held for requests that are running. */
  readonly reserved: number
  /** What a new call can use. */
  readonly available: number
  readonly granted: number
  readonly spent: number
  /** Used and not yet paid: paid first from whatever becomes available. While it is not 0, nothing is available. */
  readonly owed: number
  /** The part of `balance` that the plan gives anew in each window, spent first; null for none. */
  readonly allowance: Allowance | null
  /** A cap on what the account may spend in each window; null for none. */
  readonly budget: Budget | null
  /** The same for the key that asks. */
  readonly key_budget: Budget | null
  readonly updated_at: number
  readonly [name: string]: unknown
}

export interface Allowance {
  /** What each window begins with. */
  readonly tokens: number
  readonly every: 'day' | 'week' | 'month' | (string & {}) | null
  readonly left: number
  /** Unix seconds. */
  readonly renews_at: number | null
  readonly [name: string]: unknown
}

export interface Budget {
  readonly tokens: number
  readonly every: 'day' | 'week' | 'month' | (string & {})
  /** Charges of this window, and what running requests hold. */
  readonly used: number
  /** Unix seconds; null while no window runs. */
  readonly renews_at: number | null
  readonly [name: string]: unknown
}

export interface Transaction {
  readonly id: string
  readonly object: 'billing.transaction'
  readonly type:
    | 'topup'
    | 'charge'
    | 'correction'
    | 'adjustment'
    | 'refund'
    | 'repayment'
    | 'allowance'
    | (string & {})
  /** Negative when the balance went down. */
  readonly amount: number
  readonly balance_after: number
  readonly created_at: number
  readonly model?: string
  /** For a charge: the key of the request. */
  readonly key_id?: string
  /** For a charge: the price that was applied. */
  readonly price?: AppliedPrice
  readonly usage?: TokenUsage
  /** For a correction: what the request had been charged before. */
  readonly charged_before?: number
  readonly estimated?: boolean
  /** For a charge: what the account could not pay then, in addition to `amount`. */
  readonly owed?: number
  /** For a charge: the part that the allowance paid. */
  readonly allowance?: number
  /** For a charge: what a model reported beyond what is possible. Not charged. */
  readonly implausible?: number
  /** For a charge: what was used where the gateway counts without charging, and is never to be paid. */
  readonly waived?: number
  /** For a charge: true when the money ran out in the middle of the answer. */
  readonly cut?: boolean
  readonly request_id?: string
  readonly session_id?: string
  readonly message_id?: string
  /** For a top-up: the id of the payment. */
  readonly reference?: string
  readonly note?: string
  readonly [name: string]: unknown
}

/** Balance tokens for one token of the model, and for a request. */
export interface AppliedPrice {
  readonly input: number
  readonly output: number
  readonly cached_input: number
  readonly request: number
}

export interface TransactionParams extends ListParams {
  /** Unix seconds: made at this time or later. */
  readonly from?: number | undefined
  /** Unix seconds: made before this time. */
  readonly to?: number | undefined
  readonly type?: Transaction['type'] | undefined
  readonly model?: string | undefined
  /** Id of a key. */
  readonly key?: string | undefined
  /** Id of a payment. */
  readonly reference?: string | undefined
}

export interface Usage {
  readonly object: 'billing.usage'
  /** Unix seconds. */
  readonly start: number
  readonly end: number
  readonly model?: string
  readonly key_id?: string
  readonly requests: number
  readonly prompt_tokens: number
  /** Of the prompt. */
  readonly cached_tokens?: number
  readonly completion_tokens: number
  readonly cost: number
  /** The part of `cost` that the gateway counted without charging. */
  readonly waived?: number
  readonly [name: string]: unknown
}

export interface UsageParams {
  /** Unix seconds. */
  readonly from?: number | undefined
  readonly to?: number | undefined
  readonly bucket?: 'hour' | 'day' | undefined
  readonly group_by?: 'model' | 'key' | undefined
  readonly model?: string | undefined
  /** Id of a key. */
  readonly key?: string | undefined
}

export class Billing {
  readonly #transport: Transport

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  balance(options?: CallOptions): Promise<Balance> {
    return this.#transport.json(
      { method: 'GET', path: pathTo('api', 'billing', 'balance') },
      options,
    )
  }

  /** Newest first by default. */
  transactions(params: TransactionParams = {}, options?: CallOptions): List<Transaction> {
    const path = pathTo('api', 'billing', 'transactions')
    return listAt(this.#transport, path, { query: params, options })
  }

  /** Sums by hour or day, for charts. */
  usage(params: UsageParams = {}, options?: CallOptions): List<Usage> {
    const path = pathTo('api', 'billing', 'usage')
    return listAt(this.#transport, path, { query: params, options })
  }
}
