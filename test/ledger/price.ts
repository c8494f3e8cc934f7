// Prices compared with exact rational arithmetic, done in another way: decimal text, one long sum.

import t from 'tap'
import type { Price } from '../../src/config/config.ts'
import {
  charge,
  costOf,
  outputAfforded,
  parsePrice,
  priceText,
  wholeAmount,
  wholeCounts,
  wholeTokens,
} from '../../src/ledger/price.ts'
import { noTokens } from '../../src/tokens/token-counts.ts'
import { seeded } from '../fixtures/random.ts'

const price = (part: Partial<Price> = {}): Price => ({
  input: 1_000_000n,
  output: 1_000_000n,
  cachedInput: 1_000_000n,
  request: 0n,
  ...part,
})

t.test('one token of each at the default price costs one', async (t) => {
  t.equal(charge(price(), { prompt: 10, cached: 3, completion: 5 }), 15)
  t.equal(charge(price(), { prompt: 0, cached: 0, completion: 0 }), 0)
})

t.test('0.07 times 100 is 7, not 7.000000000000001 rounded up', async (t) => {
  t.equal(charge(price({ input: 70_000n }), { prompt: 100, cached: 0, completion: 0 }), 7)
})

t.test('a charge is rounded up once, not once a part', async (t) => {
  const third = price({
    input: 300_000n,
    output: 300_000n,
    cachedInput: 300_000n,
    request: 100_000n,
  })
  t.equal(charge(third, { prompt: 2, cached: 1, completion: 1 }), 1)
  t.equal(charge(price({ input: 1n }), { prompt: 1, cached: 0, completion: 0 }), 1)
})

t.test('a cost is not rounded, and a request costs nothing by itself', async (t) => {
  const cost = { input: 20_000n, output: 90_000n, cachedInput: 1n }
  t.equal(costOf(cost, { prompt: 3, cached: 2, completion: 1 }), 0.110002)
})

t.test('more cached tokens than prompt tokens give no discount', async (t) => {
  const cheap = price({ cachedInput: 0n })
  t.equal(charge(cheap, { prompt: 10, cached: 50, completion: 4 }), 4)
})

t.test('10,000 random charges are those of exact arithmetic', async (t) => {
  const below = seeded(7)
  for (let i = 0; i < 10_000; i++) {
    const p: Price = {
      input: BigInt(below(5_000_000)),
      output: BigInt(below(90_000_000)),
      cachedInput: BigInt(below(1_000_000)),
      request: BigInt(below(3_000_000)),
    }
    const prompt = below(i % 3 ? 5000 : 2 ** 31)
    const cached = below(prompt + 1)
    const completion = below(i % 5 ? 5000 : 2 ** 31)
    const got = BigInt(charge(p, { prompt, cached, completion }))
    let micro = p.request
    for (const [tokens, each] of [
      [prompt - cached, p.input],
      [cached, p.cachedInput],
      [completion, p.output],
    ] as const) {
      micro += BigInt(tokens) * each
    }
    if (got * 1_000_000n < micro || (got - 1n) * 1_000_000n >= micro) {
      t.fail(`charge ${got} for ${micro}`, { p, prompt, cached, completion })
    }
  }
})

t.test('a charge is exact where doubles end to be', async (t) => {
  const most = BigInt(Number.MAX_SAFE_INTEGER)
  const nothing = price({ input: 0n, output: 0n, cachedInput: 0n })
  const whole = most - (most % 1_000_000n)
  for (const near of [-1n, 0n, 1n, 2n, 3n].map((n) => whole + n * 1_000_000n)) {
    for (let micros = near - 3n; micros <= near + 3n; micros++) {
      const exact = Number((micros + 999_999n) / 1_000_000n)
      t.equal(charge({ ...nothing, request: micros }, noTokens), exact, `${micros}`)
      const each = { ...nothing, output: micros / 3n, request: micros % 3n }
      t.equal(charge(each, { ...noTokens, completion: 3 }), exact, `${micros} in parts`)
    }
  }
})

t.test('what is afforded fits, and one token more for each choice does not', async (t) => {
  const below = seeded(11)
  for (let i = 0; i < 10_000; i++) {
    const p = price({
      input: BigInt(below(5_000_000)),
      output: BigInt(1 + below(9_000_000)),
      request: BigInt(below(2_000_000)),
    })
    const promptTokens = below(3000)
    const choices = 1 + below(4)
    const amount = below(20_000)
    const output = outputAfforded(p, { amount, promptTokens, choices })
    const cost = (tokens: number): number =>
      charge(p, { prompt: promptTokens, cached: 0, completion: tokens * choices })
    const canPayPrompt = cost(0) <= amount
    if (canPayPrompt ? cost(output) > amount || cost(output + 1) <= amount : output !== 0) {
      t.fail(`${output} tokens for ${amount}`, { p, promptTokens, choices })
    }
  }
})

t.test('free output is bounded by nothing, and an unpaid prompt affords none', async (t) => {
  const options = { amount: 10, promptTokens: 10, choices: 1 }
  t.equal(outputAfforded(price({ output: 0n }), options), Number.MAX_SAFE_INTEGER)
  t.equal(outputAfforded(price({ output: 0n }), { ...options, amount: 9 }), 0)
  t.equal(outputAfforded(price(), options), 0)
})

t.test('a charge never passes 2^53 - 1', async (t) => {
  const dear = price({ input: 10n ** 15n })
  const most = Number.MAX_SAFE_INTEGER
  t.equal(charge(dear, { prompt: most, cached: 0, completion: most }), most)
})

t.test('an invalid count is refused', async (t) => {
  for (const bad of [-1, 1.5, NaN, Infinity, 2 ** 53]) {
    t.throws(() => charge(price(), { prompt: bad, cached: 0, completion: 0 }), RangeError)
    t.throws(() => charge(price(), { prompt: 0, cached: 0, completion: bad }), RangeError)
  }
})

t.test('an amount is whole and within what the sums take', async (t) => {
  const most = Number.MAX_SAFE_INTEGER
  t.same([1.2, -1, Number.NaN, Number.POSITIVE_INFINITY].map(wholeAmount), [2, 0, 0, most])
})

t.test('counts are whole and within what the sums take', async (t) => {
  t.same([1.2, -1, Number.NaN, 1e300].map(wholeTokens), [2, 0, 0, 1e12])
  t.same(wholeCounts({ prompt: 1.2, cached: -1, completion: 1e300 }), {
    prompt: 2,
    cached: 0,
    completion: 1e12,
  })
})

t.test('a price as text is short, and is read back to the millionth', async (t) => {
  const one = { input: 1_000_000n, output: 1_000_000n, cachedInput: 1_000_000n, request: 0n }
  for (const [part, text] of [
    [{}, '1 1'],
    [{ output: 0n }, '1 0'],
    [{ input: 70_000n, cachedInput: 70_000n, output: 4_000_000n }, '0.07 4'],
    [{ cachedInput: 500_000n }, '1 1 0.5'],
    [{ cachedInput: 0n }, '1 1 0'],
    [{ request: 1n }, '1 1 1 0.000001'],
    [{ output: 10n ** 15n }, '1 1000000000'],
    [{ output: 10_000_010n }, '1 10.00001'],
  ] as const) {
    const given = price({ ...one, ...part })
    t.equal(priceText(given), text)
    t.same(parsePrice(text), given)
  }
})

t.test('no more of a prompt was cached than it had', async (t) => {
  t.same(wholeCounts({ prompt: 5, cached: 7, completion: 1 }), {
    prompt: 5,
    cached: 5,
    completion: 1,
  })
})
