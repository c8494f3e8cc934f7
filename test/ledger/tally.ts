// What of an account's entries is added up, and what is told of the differences. test/ledger/audit.ts has the rest, on
// real journals.

import t from 'tap'
import { Tally } from '../../src/ledger/tally.ts'
import type { JournalEntry } from '../../src/ledger/transaction.ts'

const entry = (n: number, fields: object): JournalEntry => [
  `1795200000000-${n}`,
  Object.entries(fields).flat(),
]
const nothing = { holdRows: {} }

t.test(
  'a journal of a hundred thousand wrong entries: all are counted, a hundred are kept',
  async (t) => {
    const tally = new Tally('r', { id: 'acct_1' })
    for (let n = 0; n < 1000; n++)
      tally.add(
        Array.from({ length: 100 }, () => entry(n, { type: 'topup', amount: 1, balance: 0 })),
      )
    t.equal(tally.differenceCount, 100_000)
    t.equal(tally.differences.length, 100)
    t.equal(tally.entries, 100_000)
    t.match(tally.differences[0], { ref: 'r', account_id: 'acct_1', expected: 1, found: 0 })
  },
)

t.test('each entry is recomputed by its own price', async (t) => {
  const tally = new Tally('r', {})
  const charge = (n: number, amount: number, balance: number, price: string) =>
    entry(n, { type: 'charge', amount, balance, usage: '10 0 5', meta: JSON.stringify({ price }) })
  tally.add([
    entry(0, { type: 'topup', amount: 100, balance: 100, meta: '{}' }),
    charge(1, -30, 70, '1 4'),
    charge(2, -60, 10, '2 8'),
    charge(3, -10, 0, '1 4'),
  ])
  t.match(tally.differences, [{ what: /^charge of txn_/, expected: 30, found: 10 }])
  tally.compare({ account: { granted: '100', spent: '100' }, ...nothing })
  t.equal(tally.differenceCount, 1)
})

t.test('an entry that cannot be read is a difference, and the others are recomputed', async (t) => {
  const tally = new Tally('r', {})
  const charged = { type: 'charge', amount: -30, usage: '10 0 5' }
  tally.add([
    entry(0, { type: 'topup', amount: 100, balance: 100, meta: '{}' }),
    entry(1, { ...charged, balance: 70, meta: 'not JSON' }),
    entry(2, { ...charged, balance: 40, meta: 'null' }),
    entry(3, { ...charged, balance: 10, meta: '{"price":"dear"}' }),
    entry(4, { ...charged, amount: -2, balance: 8, usage: '-1 0 0', meta: '{"price":"1 4"}' }),
    entry(5, { ...charged, amount: -3, balance: 5, meta: '{"price":"1 4"}' }),
  ])
  const unread = (found: number) => ({ what: /^charge of txn_/, expected: null, found })
  t.match(tally.differences, [unread(30), unread(30), unread(30), unread(2), { expected: 30 }])
  tally.compare({ account: { granted: '100', spent: '95' }, ...nothing })
  t.equal(tally.differenceCount, 5)
})
