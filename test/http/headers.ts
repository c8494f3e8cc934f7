import t from 'tap'
import { headerList, headerOf, idempotencyKey, limitHeaders } from '../../src/http/headers.ts'

t.test('no value can end its header, and no name can contain more than a name', async (t) => {
  const list = headerList(
    'req_1',
    { 'X-A': 'b\r\nSet-Cookie: c\0', 'X-Tab': 'a\tb' },
    { 'X B': 'c', 'X-C:': 'd', '': 'e', 'X-é': 'f', 'X-Latin': 'é', 'X-Wide': '报告' },
  )
  t.same(list, [
    'X-Request-Id',
    'req_1',
    'X-A',
    'b??Set-Cookie: c?',
    'X-Tab',
    'a\tb',
    'X-Latin',
    'é',
    'X-Wide',
    '??',
  ])
})

t.test('names are found in any case', async (t) => {
  t.equal(headerOf({ 'Content-TYPE': 'a' }, 'content-type'), 'a')
  t.equal(headerOf({ 'Content-Typ': 'a' }, 'content-type'), undefined)
})

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

t.test('a key is 1 to 255 visible ASCII characters, or it is refused', async (t) => {
  t.equal(idempotencyKey({}), undefined)
  for (const key of ['!', 'a'.repeat(255), '~"{}']) {
    t.equal(idempotencyKey({ 'idempotency-key': key }), key)
  }
  for (const key of ['', 'a'.repeat(256), 'a b', 'ä', 'a\n']) {
    const refused = { code: 'invalid_parameter', param: 'Idempotency-Key' }
    t.throws(() => idempotencyKey({ 'idempotency-key': key }), refused, JSON.stringify(key))
  }
})
