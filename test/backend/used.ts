// What is charged where report and count differ, or one of them is missing.

import t from 'tap'
import { sentTokens, usedOf } from '../../src/backend/used.ts'

const counts = { counted: 12, promptTokens: 30, bound: 10, choices: 1 }

t.test('without a report the count is charged, with one it is bounded', async (t) => {
  const none = { prompt: undefined, completion: undefined, cached: 0 }
  const counted = { cached: 0, estimated: true, basis: 'counted' }
  t.strictSame(usedOf(none, counts), { ...counted, prompt: 30, completion: 12 })
  const some = { prompt: 20, completion: 5, cached: 0 }
  t.strictSame(usedOf(some, counts), { ...counted, prompt: 20, completion: 10 })
})

t.test('a report that is not below the count is charged as it is', async (t) => {
  const said = { prompt: 20, completion: 15, cached: 25 }
  t.strictSame(usedOf(said, counts), {
    prompt: 20,
    cached: 20,
    completion: 15,
    estimated: false,
    basis: 'reported',
  })
  const prompt = { prompt: 20, completion: undefined, cached: 0 }
  t.match(usedOf(prompt, { ...counts, counted: 0, choices: 0 }), {
    completion: 0,
    estimated: false,
  })
})

t.test('an event is a token, but not where servers send letters', async (t) => {
  t.equal(sentTokens(10, 14), 14)
  t.equal(sentTokens(10, 9), 10)
  t.equal(sentTokens(10, 40), 10)
})
