// The arithmetic of the ledger: what a model's tokens cost in tokens of the balance, and which numbers enter the sums.
// A charge is an exact integer, rounded up once, and never more than 2^53 − 1. The only place where prices are
// multiplied. Decides nothing about what is to be paid.

import type { Cost, Model, Price } from '../config/config.ts'
import type { TokenCounts } from '../tokens/token-counts.ts'

const micro = 1_000_000n
const most = BigInt(Number.MAX_SAFE_INTEGER)

/** If `cached` is more than `prompt`, it counts as `prompt`. Throws a RangeError for counts that are not integers ≥ 0: the meter never returns such counts. */
export function charge(price: Price, tokens: TokenCounts): number {
  const { request, input, cachedInput, output } = numbersOf(price)
  const prompt = count(tokens.prompt)
  const cached = count(Math.min(tokens.cached, prompt))
  const outputMicros = count(tokens.completion) * output
  const sum = request + (prompt - cached) * input + cached * cachedInput + outputMicros
  // Doubles are exact up to here. A part that is not exact is larger, and so is its sum.
  if (sum <= Number.MAX_SAFE_INTEGER - 999_999) return Math.floor((sum + 999_999) / 1_000_000)
  return bounded((price.request + microsOf(price, tokens) + micro - 1n) / micro)
}

/** A price as numbers: bigints are made anew by each multiplication. Lives as long as its model. */
const numbers = new WeakMap<Price, Readonly<Record<keyof Price, number>>>()

function numbersOf(price: Price) {
  const known = numbers.get(price)
  if (known) return known
  const { input, output, cachedInput, request } = price
  const made = {
    input: Number(input),
    output: Number(output),
    cachedInput: Number(cachedInput),
    request: Number(request),
  }
  numbers.set(price, made)
  return made
}

/** What tokens cost the operator, for a metric: not rounded, and no amount of the ledger. */
export function costOf(cost: Cost, tokens: TokenCounts): number {
  return Number(microsOf(cost, tokens)) / Number(micro)
}

function microsOf(price: Cost, { prompt, cached, completion }: TokenCounts): bigint {
  const fromCache = BigInt(count(Math.min(cached, prompt)))
  const fresh = BigInt(count(prompt)) - fromCache
  return (
    fresh * price.input + fromCache * price.cachedInput + BigInt(count(completion)) * price.output
  )
}

const texts = new WeakMap<Price, string>()

/** `<input> <output> <cached input> <request>`. The last word is left out if it is 0; then so is `<cached input>`, if it equals the input. */
export function priceText(price: Price): string {
  const known = texts.get(price)
  if (known !== undefined) return known
  const { input, output, cachedInput, request } = price
  const words = [input, output, cachedInput, request].map(decimalText)
  const length = request > 0n ? 4 : cachedInput === input ? 2 : 3
  const text = words.slice(0, length).join(' ')
  texts.set(price, text)
  return text
}

export function parsePrice(text: string): Price {
  const [input = 0n, output = 0n, cachedInput = input, request = 0n] = text
    .split(' ')
    .map(parseDecimal)
  return { input, output, cachedInput, request }
}

const places = 6

function decimalText(micros: bigint): string {
  const digits = `${micros}`.padStart(places + 1, '0')
  return `${digits.slice(0, -places)}.${digits.slice(-places)}`.replace(/\.?0+$/, '')
}

function parseDecimal(text: string): bigint {
  const [whole = '', rest = ''] = text.split('.')
  return BigInt(whole) * micro + BigInt(rest.padEnd(places, '0'))
}

export interface Affording {
  readonly amount: number
  readonly promptTokens: number
  /** So many of the prompt's tokens cost less. */
  readonly cachedTokens?: number
  readonly choices: number
}

/** The most output tokens for each choice such that prompt and output together charge no more than `amount`. */
export function outputAfforded(
  price: Price,
  { amount, promptTokens, cachedTokens = 0, choices }: Affording,
): number {
  const input =
    BigInt(count(promptTokens - cachedTokens)) * price.input +
    BigInt(count(cachedTokens)) * price.cachedInput
  const left = BigInt(count(amount)) * micro - price.request - input
  if (left < 0n) return 0
  if (price.output === 0n) return Number.MAX_SAFE_INTEGER
  return bounded(left / (price.output * BigInt(Math.max(1, count(choices)))))
}

/** A whole number that every sum can take. */
export function wholeAmount(amount: number): number {
  return Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, Math.ceil(amount) || 0))
}

const maxTokens = 1e12

/** The same for tokens of a model, whatever a backend reported. */
export function wholeTokens(tokens: number): number {
  return Math.min(maxTokens, Math.max(0, Math.ceil(tokens) || 0))
}

export function wholeCounts({ prompt, cached, completion }: TokenCounts): TokenCounts {
  return {
    prompt: wholeTokens(prompt),
    cached: Math.min(wholeTokens(cached), wholeTokens(prompt)),
    completion: wholeTokens(completion),
  }
}

function count(value: number): number {
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`not a count: ${value}`)
  return value
}

const bounded = (value: bigint): number => Number(value < most ? value : most)

/** What a model costs and takes, as the APIs show it. */
export function showModel({ price, contextWindow, maxOutputTokens, accepts }: Model) {
  return {
    price: showPrice(price),
    context_window: contextWindow,
    max_output_tokens: maxOutputTokens,
    accepts,
  }
}

/** As the APIs show it: numbers as they stand in gateway.yaml. */
export function showPrice({ input, output, cachedInput, request }: Price) {
  return {
    input: decimal(input),
    output: decimal(output),
    cached_input: decimal(cachedInput),
    request: decimal(request),
  }
}

/** Prices are small enough for a double. */
function decimal(microUnits: bigint): number {
  return Number(microUnits) / Number(micro)
}
