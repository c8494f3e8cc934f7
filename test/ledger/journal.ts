import t from 'tap'
import {
  compareIds,
  isTransactionId,
  readEntries,
  toTransaction,
  transactionId,
} from '../../src/ledger/journal.ts'
import { makeAccount, openOn, topUp } from '../fixtures/ledger.ts'
import { until } from '../fixtures/until.ts'

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

t.test('a cursor that is no entry gives what follows it', async (t) => {
  const { link, ledger } = await openOn(t)
  const caller = await makeAccount(link)
  for (const amount of [1, 2, 3]) await topUp(ledger, caller, amount)
  const list = async (page: object) => {
    const { data, has_more, first_id, last_id } = await ledger.transactions(caller.ref, {
      limit: 2,
      order: 'desc',
      ...page,
    })
    t.equal(first_id, data[0]?.id ?? null)
    t.equal(last_id, data.at(-1)?.id ?? null)
    return { amounts: data.map(({ amount }) => amount), has_more }
  }
  t.same(await list({}), { amounts: [3, 2], has_more: true })
  t.same(await list({ order: 'asc' }), { amounts: [1, 2], has_more: true })
  t.same(await list({ after: `txn_${'0'.repeat(31)}1`, order: 'asc' }), {
    amounts: [1, 2],
    has_more: true,
  })
  t.same(await list({ before: `txn_${'0'.repeat(31)}1` }), { amounts: [2, 1], has_more: true })
  for (const end of [`txn_${'0'.repeat(32)}`, `txn_${'f'.repeat(32)}`]) {
    const isLow = end.includes('0')
    t.same(await list({ after: end }), { amounts: isLow ? [] : [3, 2], has_more: !isLow })
    t.same(await list({ after: end, order: 'asc' }), {
      amounts: isLow ? [1, 2] : [],
      has_more: isLow,
    })
  }
  link.drop()
  await until(() => !link.up)
  const place = { redis: link.client, archive: undefined }
  const reading = readEntries(place, 'x', { isUpwards: true, cursor: undefined, count: 1 })
  await t.rejects(reading, { code: 'ledger_unavailable' })
})

t.test('an account that asks for many pages has one of them in memory at a time', async (t) => {
  const { link, ledger } = await openOn(t)
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 1000)
  let [reading, most] = [0, 0]
  const xrevrange = link.client.xrevrange.bind(link.client) as (...words: unknown[]) => Promise<[]>
  t.intercept(link.client, 'xrevrange', {
    value: async (...words: unknown[]) => {
      most = Math.max(most, ++reading)
      return await xrevrange(...words).finally(() => reading--)
    },
  })
  const page = { limit: 10, order: 'desc' } as const
  await Promise.all(Array.from({ length: 20 }, () => ledger.transactions(caller.ref, page)))
  t.equal(most, 1)
})
