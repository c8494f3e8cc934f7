// What was used goes to Redis and to the API in fixed words, and comes back from Redis unchanged.

import t from 'tap'
import {
  fromWords,
  noTokens,
  toUsage,
  toWords,
  wholeCounts,
  wholeTokens,
} from '../../src/tokens/token-counts.ts'

const counts = { prompt: 30, cached: 10, completion: 4 }

t.test('Redis has prompt, cached and completion, in this order', async (t) => {
  t.equal(toWords(counts), '30 10 4')
  t.same(fromWords('30 10 4'.split(' ')), counts)
  t.same(fromWords(['7', '6', '5', '99', 'r']), { prompt: 7, cached: 6, completion: 5 })
  t.equal(toWords({ ...counts, charge: 9 } as typeof counts), '30 10 4', 'and nothing else')
})

t.test('words that are missing, or no numbers, count as nothing', async (t) => {
  t.same(fromWords([]), noTokens)
  t.same(fromWords(['7']), { prompt: 7, cached: 0, completion: 0 })
  t.same(fromWords(['', 'x', '5']), { prompt: 0, cached: 0, completion: 5 })
})

t.test("the API's usage has OpenAI's names in OpenAI's order", async (t) => {
  const usage = '{"prompt_tokens":30,"completion_tokens":4,"total_tokens":34}'
  t.equal(JSON.stringify(toUsage(counts)), usage, 'cached tokens are a part of the prompt')
})

t.test('counts are whole and within what the sums take', async (t) => {
  t.same([1.2, -1, Number.NaN, 1e300].map(wholeTokens), [2, 0, 0, 1e12])
  t.same(wholeCounts({ prompt: 1.2, cached: -1, completion: 1e300 }), {
    prompt: 2,
    cached: 0,
    completion: 1e12,
  })
})
