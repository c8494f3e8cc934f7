import t from 'tap'
import type { IncomingHttpHeaders } from 'node:http'
import { isRangeMeant, judgeConditions } from '../../../src/files/download/conditions.ts'
import type { ConditionVerdict } from '../../../src/files/download/conditions.ts'

// In this time zone, a date without a zone is not GMT.
process.env.TZ = 'Asia/Kathmandu'

const modifiedAt = Date.UTC(1994, 10, 6, 8, 49, 37) / 1000
const file = { etag: '"5f"', modifiedAt }
const at = 'Sun, 06 Nov 1994 08:49:37 GMT'
const before = 'Sun, 06 Nov 1994 08:49:36 GMT'
const after = 'Sun, 06 Nov 1994 08:49:38 GMT'

function are(verdict: ConditionVerdict, name: string, values: readonly string[]) {
  for (const value of values) {
    t.equal(judgeConditions(file, { [name]: value }), verdict, `${name}: ${value}`)
  }
}

t.test('without conditions it is sent', async (t) => {
  t.equal(judgeConditions(file, {}), 'send')
})

t.test('If-None-Match: a client that has it does not get it again, weakly compared', async () => {
  are('not_modified', 'if-none-match', ['"5f"', 'W/"5f"', '*', ' * '])
  are('not_modified', 'if-none-match', ['"a", "5f"', '"a",W/"5f" , "b"', ',"5f",', '"a,b", "5f"'])
  are('send', 'if-none-match', ['"a"', '"5F"', '"5f', '5f', "'5f'", 'w/"a"', '', '"a,5f,b"', '**'])
})

t.test('If-Match: only exactly this file, strongly compared', async () => {
  are('send', 'if-match', ['"5f"', '*', '"a", "5f"', 'W/"5f", "5f"'])
  are('precondition_failed', 'if-match', ['"a"', 'W/"5f"', '5f', '', '"5f', '"a", W/"5f"'])
})

t.test('If-Modified-Since: at or after the date nothing has changed', async () => {
  are('not_modified', 'if-modified-since', [at, after])
  are('not_modified', 'if-modified-since', [
    'Sunday, 06-Nov-94 08:49:37 GMT',
    'Sun Nov  6 08:49:37 1994',
  ])
  are('send', 'if-modified-since', [before, 'Sun Nov  6 08:49:36 1994'])
})

t.test('If-Unmodified-Since: an earlier date fails', async () => {
  are('send', 'if-unmodified-since', [at, after])
  are('precondition_failed', 'if-unmodified-since', [before, 'Sunday, 06-Nov-94 08:49:36 GMT'])
})

t.test('an invalid date counts as absent', async () => {
  const none = ['', '2030', 'yes 1', '2030-01-01', '1900000000', `${after} `, after.slice(5)]
  const others = [
    after.toLowerCase(),
    'Sun, 06 Nov 1994 08:49:38 CET',
    'Sun, 06 Nov 1994 25:49:38 GMT',
  ]
  are('send', 'if-modified-since', [...none, ...others])
  are('send', 'if-unmodified-since', ['', '1990', 'Sat, 01 Jan 1990 00:00:00', '1990-01-01'])
})

t.test("conditions have the standard's order; a date counts only without a tag", async (t) => {
  const cases: readonly (readonly [ConditionVerdict, IncomingHttpHeaders])[] = [
    ['send', { 'if-match': '"5f"', 'if-unmodified-since': before }],
    ['precondition_failed', { 'if-match': '"a"', 'if-unmodified-since': after }],
    ['precondition_failed', { 'if-match': '"a"', 'if-none-match': '"5f"' }],
    ['not_modified', { 'if-match': '"5f"', 'if-none-match': '"5f"' }],
    ['precondition_failed', { 'if-unmodified-since': before, 'if-none-match': '"5f"' }],
    ['not_modified', { 'if-unmodified-since': at, 'if-modified-since': at }],
    ['send', { 'if-none-match': '"a"', 'if-modified-since': after }],
    ['not_modified', { 'if-none-match': '"5f"', 'if-modified-since': before }],
  ]
  for (const [verdict, headers] of cases)
    t.equal(judgeConditions(file, headers), verdict, JSON.stringify(headers))
})

t.test('If-Range: the range counts only for exactly this tag or date', async (t) => {
  t.ok(isRangeMeant(file, {}))
  for (const same of ['"5f"', at, 'Sun Nov  6 08:49:37 1994']) {
    t.ok(isRangeMeant(file, { 'if-range': same }), same)
  }
  for (const other of ['W/"5f"', '"a"', '5f', '*', '"5f", "5f"', before, after, '', '1994']) {
    t.notOk(isRangeMeant(file, { 'if-range': other }), other)
  }
})

t.test('a long list is read quickly', async (t) => {
  const began = process.cpuUsage()
  for (const long of [
    '"'.repeat(16_000),
    '"a '.repeat(5000),
    'W/'.repeat(8000),
    '"a",'.repeat(4000),
  ]) {
    t.equal(judgeConditions(file, { 'if-none-match': long }), 'send')
  }
  t.ok(process.cpuUsage(began).user < 200_000, 'µs of CPU, however busy the machine')
})
