// Pages of the journal and their cursors, filters, and what a search may cost.

import { Readable } from 'node:stream'
import t from 'tap'
import type { Test } from 'tap'
import { readEntries, readEntry, readPieces, readTransactions } from '../../src/ledger/journal.ts'
import type { JournalSource, ReadOptions } from '../../src/ledger/journal.ts'
import type { TransactionFilter, TransactionQuery } from '../../src/ledger/transaction-query.ts'
import { beyond, toTransaction } from '../../src/ledger/transaction.ts'
import type { JournalEntry, Transaction } from '../../src/ledger/transaction.ts'
import { keys } from '../../src/redis/keys.ts'
import { emptyArchive, makeAccount, openOn, topUp } from '../fixtures/ledger.ts'
import { pick } from '../fixtures/pick.ts'
import { until } from '../fixtures/until.ts'

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
  const place = { redis: link.client, archive: emptyArchive }
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

/** Entries of two models and two keys, at times of our own, two of them in the same millisecond; the first five are in an archive. */
async function open(t: Test, count = 12) {
  const { link, ledger } = await openOn(t)
  const { client } = link
  const { ref } = await makeAccount(link)
  const entries: JournalEntry[] = []
  for (let i = 0; i < count; i++) {
    const id = `${1_000_000 + 1000 * (i >> 1)}-${i % 2}`
    const of = {
      model: i % 3 === 0 ? 'org%2Fm' : 'm',
      key: `key_${i % 4}`,
      usage: '1 0 1',
      flags: '',
    }
    const sums = { type: 'charge', amount: `${-i}`, balance: '0', meta: '{}' }
    entries.push([id, Object.entries({ ...sums, ...(i % 5 !== 4 && of) }).flat()])
  }
  const old = entries.slice(0, 5)
  for (const [id, fields] of entries.slice(5)) await client.xadd(keys.journal(ref), id, ...fields)
  const archive = {
    open: () => ({
      async read({ isUpwards, cursor, end, count }: ReadOptions) {
        const isBeyond = beyond(isUpwards)
        return (isUpwards ? old : old.toReversed())
          .filter(([id]) => cursor === undefined || isBeyond(id, cursor))
          .filter(([id]) => end === undefined || isBeyond(end, id))
          .slice(0, count)
      },
      [Symbol.dispose]() {},
    }),
  }
  return { client, ledger, ref, entries, place: { redis: client, archive } }
}

t.test('any filter, order and size of pages: together they are what matches', async (t) => {
  const { ref, entries, place } = await open(t)
  const all = entries.map(toTransaction)
  const filters: readonly TransactionFilter[] = [
    {},
    { from: 1001 },
    { to: 1002 },
    { to: 0 },
    { from: 1001, to: 1004 },
    { from: 1003, to: 1003 },
    { model: 'org/m' },
    { key: 'key_2', from: 1001 },
    { model: 'm', key: 'key_1', to: 1005 },
    { type: 'charge' },
    { type: 'topup' },
    { model: 'none' },
  ]
  for (const filter of filters) {
    const { from = 0, to = Infinity, model, key, type } = filter
    const matching = all.filter(
      (one) =>
        one.created_at >= from &&
        one.created_at < to &&
        (model === undefined || one.model === model) &&
        (key === undefined || one.key_id === key) &&
        (type === undefined || one.type === type),
    )
    const pieces = await Readable.from(readPieces(place, ref, filter)).toArray()
    t.same(pieces.flat(), matching, JSON.stringify(filter))
    for (const order of ['asc', 'desc'] as const) {
      for (const limit of [1, 2, 100]) {
        const expected = order === 'asc' ? matching : matching.toReversed()
        const query = { ...filter, order, limit }
        t.same(await walk(place, ref, query, 'after'), expected)
        t.same((await walk(place, ref, query, 'before')).toSorted(byId), matching)
      }
    }
  }
})

const byId = (a: Transaction, b: Transaction) => (a.id < b.id ? -1 : 1)

/** All pages, forwards or, from beyond the end, backwards. */
async function walk(
  place: JournalSource,
  ref: string,
  query: TransactionQuery,
  side: 'after' | 'before',
): Promise<readonly Transaction[]> {
  const rows: Transaction[] = []
  const end = query.order === 'asc' ? 'f' : '0'
  let cursor: string | null = side === 'after' ? null : `txn_${end.repeat(32)}`
  for (;;) {
    const page = await readTransactions(place, ref, { ...query, ...(cursor && { [side]: cursor }) })
    rows.push(...page.data)
    if (!page.has_more) return rows
    cursor = side === 'after' ? page.last_id : page.first_id
  }
}

t.test(
  'a page ends after 20,000 entries, with what it found or nothing, and says where it goes on',
  async (t) => {
    const { link, ledger } = await openOn(t)
    const { ref } = await makeAccount(link)
    const rare = { type: 'topup', amount: '1', balance: '1', meta: '{}' }
    const usual = { type: 'charge', amount: '0', balance: '1', meta: '{}' }
    const add = (fields: object) =>
      link.client.xadd(keys.journal(ref), '*', ...Object.entries(fields).flat())
    await add(rare)
    for (let i = 0; i < 20_500; i += 500)
      await Promise.all(Array.from({ length: 500 }, () => add(usual)))
    const query = { type: 'topup', limit: 5, order: 'desc' } as const
    const place = { redis: link.client, archive: emptyArchive }
    const empty = await ledger.transactions(ref, query)
    t.match(empty, { data: [], first_id: null, last_id: /^txn_/, has_more: true })
    t.match(await ledger.transactions(ref, { ...query, after: empty.last_id ?? '' }), {
      data: [{ type: 'topup' }],
      has_more: false,
    })
    for (const order of ['asc', 'desc'] as const) {
      for (const side of ['after', 'before'] as const)
        t.equal((await walk(place, ref, { type: 'topup', limit: 5, order }, side)).length, 1)
      t.same(await walk(place, ref, { type: 'refund', limit: 5, order }, 'after'), [])
    }
    await add(rare)
    const page = await ledger.transactions(ref, query)
    t.match(page, { data: [{ type: 'topup' }], has_more: true })
    t.not(page.last_id, page.data[0]?.id, 'the next page begins where the search ended')
    const rest = await ledger.transactions(ref, { ...query, after: page.last_id ?? '' })
    t.match(rest, { data: [{ type: 'topup' }], has_more: false })
    const pieces = await Readable.from(readPieces(place, ref, query)).toArray()
    t.equal(pieces.flat().length, 2, 'an export goes on to the end')
  },
)

t.test('an entry is found by its id, in the stream and in the archive', async (t) => {
  const { ref, entries, place } = await open(t)
  for (const entry of entries) t.same(await readEntry(place, ref, entry[0]), entry)
  t.equal(await readEntry(place, ref, '1000000-7'), undefined)
})

t.test('a payment is found by its reference, where it matches the rest of the query', async (t) => {
  const { link, ledger } = await openOn(t)
  const { ref } = await makeAccount(link)
  const pay = (reference: string, idempotencyId: string) =>
    ledger.credit({ ref, idempotencyId, amount: 5, type: 'topup', reference })
  const { transaction } = await pay('pay_1', 'a')
  await pay('pay_2', 'b')
  const find = async (more: object) => {
    const query: TransactionQuery = { limit: 1, order: 'desc', reference: 'pay_1', ...more }
    return pick((await ledger.transactions(ref, query)).data, 'id')
  }
  const { id, created_at: at } = transaction
  t.same(await find({}), [id])
  for (const more of [{ from: at, to: at + 1 }, { type: 'topup' }, { order: 'asc' }])
    t.same(await find(more), [id], JSON.stringify(more))
  for (const more of [
    { from: at + 1 },
    { to: at },
    { type: 'refund' },
    { after: id },
    { reference: 'x' },
  ])
    t.same(await find(more), [], JSON.stringify(more))
})
