// The query of a list of transactions, and what it finds.

import t from 'tap'
import { newId } from '../../src/ids.ts'
import {
  edgesOf,
  isFiltered,
  matcherOf,
  parseTransactionFilter,
  parseTransactionQuery,
} from '../../src/ledger/transaction-query.ts'

const parse = (query: string) => parseTransactionQuery(new URLSearchParams(query))

t.test('a complete query is read as it is', async (t) => {
  const key = newId('key')
  const query = `limit=5&order=asc&from=1&to=2&type=refund&model=org%2Fm&key=${key}&reference=pay_1`
  t.match(parse(query), {
    limit: 5,
    order: 'asc',
    from: 1,
    to: 2,
    type: 'refund',
    model: 'org/m',
    key,
    reference: 'pay_1',
  })
  t.match(parse(''), { from: undefined, to: undefined, type: undefined, reference: undefined })
  t.notOk('limit' in parseTransactionFilter(new URLSearchParams('from=1')))
})

t.test('an invalid query is refused with its name', async (t) => {
  for (const [query, param] of [
    ['from=x', 'from'],
    ['to=-1', 'to'],
    ['from=3&to=2', 'from'],
    ['type=gift', 'type'],
    ['type=', 'type'],
    ['type=charge&type=refund', 'type'],
    ['model=', 'model'],
    ['key=k', 'key'],
    ['reference=a%20b', 'reference'],
    [`reference=${'x'.repeat(256)}`, 'reference'],
    ['after=x', 'after'],
  ] as const) {
    t.throws(() => parse(query), { code: 'invalid_parameter', param }, query)
  }
})

t.test('the edges are excluded ids, also at the beginning of time', async (t) => {
  const [below, above] = ['999-9007199254740991', '2000-0']
  t.same(edgesOf({ from: 1, to: 2 }, true), { start: below, end: above })
  t.same(edgesOf({ from: 1, to: 2 }, false), { start: above, end: below })
  t.same(edgesOf({ from: 0 }, true), { start: undefined, end: undefined })
})

t.test('what has no model or key matches no filter for one', async (t) => {
  const entry = ['1-0', ['type', 'topup', 'amount', '1']] as const
  t.ok(matcherOf({})(entry))
  t.ok(matcherOf({ type: 'topup' })(entry))
  t.notOk(matcherOf({ model: 'm' })(entry))
  t.notOk(matcherOf({ key: 'k' })(entry))
  t.notOk(isFiltered({ from: 1, to: 2, reference: 'r' }))
  t.ok(isFiltered({ key: 'k' }))
})
