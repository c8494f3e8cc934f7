// What tokens of a model cost in tokens of the balance: exact integers, rounded up once a charge, never past 2^53 − 1.
// The only place where prices are multiplied. Decides nothing about what is to be paid.

import type { Price } from '../config/config.ts'
import type { TokenCounts } from '../tokens/token-counts.ts'

const micro = 1_000_000n
const most = BigInt(Number.MAX_SAFE_INTEGER)

/** More `cached` tokens than `prompt` count as `prompt`. Throws a RangeError for counts that are not integers ≥ 0: the meter never returns such counts. */
export function charge(price: Price, { prompt, cached, completion }: TokenCounts): number {
  const fromCache = BigInt(count(Math.min(cached, prompt)))
  const fresh = BigInt(count(prompt)) - fromCache
  const sum =
    price.request +
    fresh * price.input +
    fromCache * price.cachedInput +
    BigInt(count(completion)) * price.output
  return bounded((sum + micro - 1n) / micro)
}

/** The most output tokens for each choice such that prompt and output together charge no more than `amount`. */
export function outputAfforded(
  price: Price,
  { amount, promptTokens, choices }: { amount: number; promptTokens: number; choices: number },
): number {
  const left =
    BigInt(count(amount)) * micro - price.request - BigInt(count(promptTokens)) * price.input
  if (left < 0n) return 0
  if (price.output === 0n) return Number.MAX_SAFE_INTEGER
  return bounded(left / (price.output * BigInt(Math.max(1, count(choices)))))
}

/** A whole number that every sum can take. */
export function wholeAmount(amount: number): number {
  return Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, Math.ceil(amount) || 0))
}

function count(value: number): number {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`not a count: ${value}`)
  return value
}

const bounded = (value: bigint): number => Number(value < most ? value : most)
