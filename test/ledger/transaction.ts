// An entry as customers are shown it, of this version and of those before.

import t from 'tap'
import {
  compareIds,
  isTransactionId,
  toTransaction,
  transactionId,
} from '../../src/ledger/transaction.ts'
import { parsePrice, showPrice } from '../../src/ledger/price.ts'

t.test('ids of transactions sort as their entries', async (t) => {
  const ids = ['1795200000000-0', '1795200000000-1', '1795200000000-10', '1795200000001-0']
  t.same(ids.map(transactionId).sort(), ids.map(transactionId))
  t.same(ids.toReversed().sort(compareIds), ids)
  t.ok(ids.map(transactionId).every(isTransactionId))
  for (const none of ['', 'txn_1', `msg_${'0'.repeat(32)}`, `txn_${'0'.repeat(33)}`]) {
    t.notOk(isTransactionId(none), none)
  }
  t.equal(
    transactionId('1795200000000-10'),
    'txn_000001a1fae0c000000000000000000a'.replace(
      /^txn_.{16}/,
      `txn_${(1795200000000).toString(16).padStart(16, '0')}`,
    ),
  )
})

t.test('an entry that a credit made has none of the fields of a request', async (t) => {
  const entry = [
    '1795200000123-0',
    [
      'type',
      'topup',
      'amount',
      '9007199254740991',
      'balance',
      '9007199254740991',
      'meta',
      '{"note":"n"}',
    ],
  ] as const
  t.same(toTransaction(entry), {
    id: transactionId(entry[0]),
    object: 'billing.transaction',
    type: 'topup',
    amount: 9007199254740991,
    balance_after: 9007199254740991,
    note: 'n',
    created_at: 1795200000,
  })
})

const entryOf = (fields: Readonly<Record<string, string>>) =>
  ['1795200000123-0', Object.entries(fields).flat()] as const

const charged = {
  type: 'charge',
  amount: '-17',
  balance: '83',
  hold: '0123',
  model: 'org%2Fm',
  key: 'key_1',
  usage: '32 8 20',
  flags: '',
}

t.test('a charge has its key, its price and its tokens of each kind', async (t) => {
  const meta = '{"request_id":"req_1","price":"0.15 0.6 0.075"}'
  t.same(toTransaction(entryOf({ ...charged, meta })), {
    id: transactionId('1795200000123-0'),
    object: 'billing.transaction',
    type: 'charge',
    amount: -17,
    balance_after: 83,
    model: 'org/m',
    key_id: 'key_1',
    price: { input: 0.15, output: 0.6, cached_input: 0.075, request: 0 },
    usage: { prompt_tokens: 32, completion_tokens: 20, total_tokens: 52, cached_tokens: 8 },
    estimated: false,
    request_id: 'req_1',
    created_at: 1795200000,
  })
})

t.test(
  'an entry of a gateway that kept no price has none, and its type stays what it was',
  async (t) => {
    const old = { ...charged, type: 'adjustment', meta: '{"request_id":"req_1"}' }
    const shown = toTransaction(entryOf(old))
    t.match(shown, { type: 'adjustment', key_id: 'key_1', request_id: 'req_1' })
    t.notOk('price' in shown || 'charged_before' in shown)
  },
)

t.test('`as` is more exact than the type, by which older gateways sum', async (t) => {
  const correction = { ...charged, as: 'correction', before: '9', meta: '{}' }
  t.match(toTransaction(entryOf(correction)), {
    type: 'correction',
    charged_before: 9,
    request_id: 'req_0123',
  })
  const refund = { type: 'charge', as: 'refund', amount: '5', balance: '5', meta: '{}' }
  t.match(toTransaction(entryOf(refund)), { type: 'refund', amount: 5, request_id: undefined })
  t.match(toTransaction(entryOf({ ...refund, as: 'unheard-of' })), { type: 'charge' })
})

t.test('prices are shown as they were written', async (t) => {
  for (const [text, shown] of [
    ['1 1', { input: 1, output: 1, cached_input: 1, request: 0 }],
    ['0.000001 1000000000', { input: 0.000001, output: 1e9, cached_input: 0.000001, request: 0 }],
    ['0.1 0.2 0.3 0.7', { input: 0.1, output: 0.2, cached_input: 0.3, request: 0.7 }],
  ] as const) {
    t.same(showPrice(parsePrice(text)), shown, text)
  }
})
