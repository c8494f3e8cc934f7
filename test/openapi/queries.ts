// test/docs-api.ts compares them with those that the routes take.

import t from 'tap'
import { pageQuery as pageNames } from '../../src/http/page.ts'
import { bookQueries } from '../../src/ledger/book-answers.ts'
import { pageQuery, streamQuery, transactionQuery, usageQuery } from '../../src/openapi/queries.ts'

t.test('they are in the order in which the routes name them', async (t) => {
  t.strictSame(Object.keys(pageQuery('txn')), pageNames)
  t.strictSame(Object.keys(usageQuery), bookQueries.usage)
  t.strictSame(Object.keys(transactionQuery), bookQueries.transactions)
  t.strictSame(Object.keys(streamQuery), ['starting_after'])
})

t.test('a list has its own order and its own ids', async (t) => {
  t.equal(pageQuery('msg', 'asc')['order']?.schema['default'], 'asc')
  t.equal(pageQuery('sess')['order']?.schema['default'], 'desc')
  t.match(pageQuery('txn')['after']?.schema['pattern'], /txn_/)
})
