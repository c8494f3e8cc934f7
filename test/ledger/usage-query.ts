// The query of GET …/usage.

import t from 'tap'
import { parseUsageQuery } from '../../src/ledger/usage-query.ts'

const parse = (query: string) => parseUsageQuery(new URLSearchParams(query))

t.test('a complete query is read as it is', async (t) => {
  const asked = parse('from=100&to=7300&bucket=day&group_by=key')
  t.same(asked, { from: 100, to: 7300, bucket: 'day', groupBy: 'key' })
})

t.test('without one it is the last day, by the hour, ungrouped', async (t) => {
  const before = Math.floor(Date.now() / 1000)
  const { from, to, bucket, groupBy } = parse('')
  t.equal(to - from, 24 * 3600)
  t.ok(to >= before)
  t.same([bucket, groupBy], ['hour', undefined])
})

t.test('an invalid query is refused with its name', async (t) => {
  const refused: readonly (readonly [string, string])[] = [
    ['from=-1', 'from'],
    ['to=1.5', 'to'],
    ['from=', 'from'],
    ['from=999999999999', 'from'],
    ['from=20&to=10', 'from'],
    ['from=10&from=20&to=30', 'from'],
    ['bucket=day&bucket=hour', 'bucket'],
    ['bucket=week', 'bucket'],
    ['group_by=account', 'group_by'],
  ]
  for (const [query, param] of refused) {
    t.throws(() => parse(query), { code: 'invalid_parameter', param }, query)
  }
})
