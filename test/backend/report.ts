// What a backend reports, read from whole answers, from the end of large ones, and from errors. What is charged where
// report and count differ, or one of them is missing.

import t from 'tap'
import {
  hasError,
  isError,
  readAnswer,
  readReport,
  saysLoading,
  usageIn,
  usedOf,
} from '../../src/backend/report.ts'

t.test('an impossible count is ignored', async (t) => {
  const said = (count: unknown) => readReport({ prompt_tokens: count, completion_tokens: 3 }, true)
  for (const count of [-1, 1.5, 1e10, 2 ** 60, '5', null, [5], {}, true]) {
    t.match(said(count), { prompt: undefined, completion: 3 }, JSON.stringify(count))
  }
  t.match(said(5), { prompt: 5, completion: 3, cached: 0 })
  t.equal(readReport({}, true), undefined)
  t.equal(readReport('x', true), undefined)
})

t.test('embeddings report only a prompt, and some only a total', async (t) => {
  t.match(readReport({ total_tokens: 8 }, false), { prompt: 8, completion: undefined })
  t.match(readReport({ total_tokens: 8, completion_tokens: 3 }, false), { prompt: undefined })
  t.equal(readReport({ total_tokens: 8 }, true), undefined, 'it has the answer in it')
})

t.test('the usage of a long answer is read from its end alone', async (t) => {
  const usage = { prompt_tokens: 5, completion_tokens: 3, details: { a: {} } }
  t.strictSame(usageIn(`…"}],"usage":${JSON.stringify(usage)},"id":"x"}`), usage)
  t.equal(usageIn('{"x":1}'), undefined)
  t.equal(usageIn('"usage":{"prompt_tokens":'), undefined)
  t.equal(usageIn(String.raw`{"content":"\"usage\":{\"prompt_tokens\":1}"}`), undefined)
  const large = `{"x":"${'x'.repeat(2_000_000)}","usage":${JSON.stringify(usage)}}`
  t.strictSame(readAnswer(large), { usage })
})

t.test('errors and broken texts are no answers', async (t) => {
  t.equal(readAnswer('{"error":{"message":"x"}}'), undefined)
  t.equal(readAnswer('<html>'), undefined)
  t.equal(readAnswer(`{"x":"${'x'.repeat(2_000_000)}`), undefined, 'it was cut off')
  t.same(readAnswer('{"error":null,"usage":1}'), { usage: 1 })
  t.ok(isError('{"id":1,"error":{"message":"x"}}'))
  t.notOk(isError('{"id":1,"x":{"error":{"message":"x"}}}'))
  t.notOk(hasError('{"error":null,"choices":[]}'), 'some servers say so')
})

t.test('a 503 about loading a model is no failure, wherever that stands', async (t) => {
  const says = (status: number, body: string, headers = {}) =>
    saysLoading(status, { headers, body: Buffer.from(body) })
  t.equal(says(503, '{"error":{"message":"Loading model"}}'), true)
  t.equal(says(503, '', { 'x-error': 'Model m is currently loading' }), true)
  t.equal(says(503, '{"error":{"message":"overloaded"}}'), false)
  t.equal(says(500, '{"error":{"message":"Loading model"}}'), false)
  t.equal(saysLoading(503, { headers: {}, body: undefined }), false)
})

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
