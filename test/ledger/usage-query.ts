// What a query of usage asks for.

import t from 'tap'
import { newId } from '../../src/ids.ts'
import { bucketsOf, parseUsageQuery } from '../../src/ledger/usage-query.ts'

const parse = (query: string) => parseUsageQuery(new URLSearchParams(query))

t.test('a complete query is read as it is', async (t) => {
  const key = newId('key')
  const asked = parse(`from=100&to=7300&bucket=day&group_by=key&model=org%2Fm&key=${key}`)
  const filter = { model: 'org/m', key }
  t.same(asked, { from: 100, to: 7300, bucket: 'day', groupBy: 'key', ...filter })
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
    ['key=m', 'key'],
    ['model=', 'model'],
  ]
  for (const [query, param] of refused) {
    t.throws(() => parse(query), { code: 'invalid_parameter', param }, query)
  }
})

t.test('"to" is excluded: of a month, the next month has nothing', async (t) => {
  const buckets = (from: number, to: number, bucket: 'hour' | 'day') =>
    bucketsOf({ from, to, bucket })
  t.same(buckets(0, 2 * 86_400, 'day'), [0, 1])
  t.same(buckets(86_399, 86_401, 'day'), [0, 1])
  t.same(buckets(3600, 3600, 'hour'), [])
  t.same(buckets(3600, 3601, 'hour'), [1])
})
