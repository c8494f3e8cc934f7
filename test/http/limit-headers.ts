import t from 'tap'
import { limitHeaders } from '../../src/http/limit-headers.ts'

t.test("resets are in OpenAI's form and never too early", async (t) => {
  const forms: [number, string][] = [
    [-5, '0ms'],
    [0, '0ms'],
    [11.2, '12ms'],
    [999.5, '1s'],
    [1000, '1s'],
    [1001, '2s'],
    [59_999, '1m0s'],
    [360_000, '6m0s'],
    [3_599_001, '1h0m0s'],
    [3_725_000, '1h2m5s'],
  ]
  for (const [resetMs, text] of forms) {
    const headers = limitHeaders({ requests: { limit: 1, remaining: 0, resetMs } })
    t.equal(headers['x-ratelimit-reset-requests'], text)
  }
})

t.test('only existing limits have headers', async (t) => {
  t.same(limitHeaders({}), {})
  t.same(limitHeaders({ requests: { limit: 60, remaining: -1, resetMs: 12 } }), {
    'x-ratelimit-limit-requests': '60',
    'x-ratelimit-remaining-requests': '0',
    'x-ratelimit-reset-requests': '12ms',
  })
  t.same(limitHeaders({ tokens: { limit: 400_000, remaining: 1.9, resetMs: 360_000 } }), {
    'x-ratelimit-limit-tokens': '400000',
    'x-ratelimit-remaining-tokens': '1',
    'x-ratelimit-reset-tokens': '6m0s',
  })
})
