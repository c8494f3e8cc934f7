// The usage of all accounts: pages of accounts, or sums over them, read a few at a time.

import { Readable } from 'node:stream'
import t from 'tap'
import type { Test } from 'tap'
import {
  parseUsageOfAllQuery,
  readPiecesOfAll,
  readUsageOfAll,
} from '../../src/ledger/usage-of-all.ts'
import type { UsageOfAllQuery } from '../../src/ledger/usage-of-all.ts'
import type { UsageRow } from '../../src/ledger/usage.ts'
import { keys } from '../../src/redis/keys.ts'
import { makeAccount, openOn } from '../fixtures/ledger.ts'
import { pick } from '../fixtures/pick.ts'

const parse = (query: string) => parseUsageOfAllQuery(new URLSearchParams(query))

/** Ten accounts, two of them deleted; each but the third has used two models by two keys on two days. */
async function open(t: Test) {
  const { link } = await openOn(t)
  const { client } = link
  const refs: string[] = []
  for (let i = 0; i < 10; i++) {
    const { ref } = await makeAccount(link)
    refs.push(ref)
    const list = i === 1 || i === 5 ? keys.deletedAccounts : keys.accounts
    await client.zadd(list, 0, `acct_${ref}:${ref}`)
    // This one is just being deleted.
    if (i === 7) await client.zadd(keys.deletedAccounts, 0, `acct_${ref}:${ref}`)
    if (i === 2) continue
    for (const day of [1, 2]) {
      await client.hset(keys.usageDay(ref, day), {
        'm|key_1': `1 10 2 5 ${day}`,
        'm|key_2': '1 10 2 5 1',
        'org%2Fm|key_1': '1 1 0 1 1',
        'org%2Fm|key_1|waived': '0 0 0 0 0 1',
      })
    }
  }
  const query = { from: 86_400, to: 3 * 86_400, bucket: 'day', limit: 3 } as const
  const idOf = (i: number) => `acct_${refs[i]}`
  return { client, query, idOf }
}

t.test('by account, in pages; an account without usage has no row', async (t) => {
  const { client, query, idOf } = await open(t)
  const asked: UsageOfAllQuery = { ...query, groupBy: 'account' }
  const first = await readUsageOfAll(client, asked)
  t.match(first, { first_id: idOf(0), last_id: idOf(2), has_more: true })
  t.same(pick(first.data, 'account_id'), [idOf(0), idOf(0), idOf(1), idOf(1)])
  t.match(first.data[0], {
    object: 'billing.usage',
    start: 86_400,
    end: 2 * 86_400,
    requests: 3,
    prompt_tokens: 21,
    cached_tokens: 4,
    completion_tokens: 11,
    cost: 3,
    waived: 1,
  })
  const rows = [...first.data]
  let page = first
  while (page.has_more) {
    page = await readUsageOfAll(client, { ...asked, after: page.last_id ?? '' })
    rows.push(...page.data)
  }
  t.equal(rows.length, 18)
  const pieces: UsageRow[][] = await Readable.from(readPiecesOfAll(client, asked)).toArray()
  t.same(pieces.flat(), rows, 'as CSV has it')
})

t.test('by key: each key of each account', async (t) => {
  const { client, query, idOf } = await open(t)
  const { data } = await readUsageOfAll(client, { ...query, groupBy: 'key', model: 'm', limit: 1 })
  t.match(data, [
    { account_id: idOf(0), key_id: 'key_1', start: 86_400, cost: 1 },
    { account_id: idOf(0), key_id: 'key_2', start: 86_400, cost: 1 },
    { account_id: idOf(0), key_id: 'key_1', start: 2 * 86_400, cost: 2 },
    { account_id: idOf(0), key_id: 'key_2', start: 2 * 86_400, cost: 1 },
  ])
})

t.test('by model, and as one: sums over all accounts', async (t) => {
  const { client, query } = await open(t)
  const byModel = await readUsageOfAll(client, { ...query, groupBy: 'model' })
  t.match(byModel.data, [
    { start: 86_400, model: 'm', requests: 18, cached_tokens: 36, cost: 18 },
    { start: 86_400, model: 'org/m', requests: 9, cost: 9, waived: 9 },
    { start: 2 * 86_400, model: 'm', cost: 27 },
    { start: 2 * 86_400, model: 'org/m', cost: 9 },
  ])
  t.match(byModel, { has_more: false, last_id: null })
  t.notOk('account_id' in (byModel.data[0] ?? {}))
  const one = await readUsageOfAll(client, { ...query, key: 'key_2' })
  t.match(one.data, [{ cost: 9 }, { cost: 9 }])
  const pieces: UsageRow[][] = await Readable.from(readPiecesOfAll(client, query)).toArray()
  t.match(pieces.flat(), [{ cost: 27 }, { cost: 36 }])
})

t.test('it reads a few accounts at a time, and stops when its caller leaves', async (t) => {
  const { client, query: used } = await open(t)
  // The first day has no sums, and is not read.
  const query = { ...used, from: 0 }
  const left = new AbortController()
  let [reading, most, reads] = [0, 0, 0]
  const hgetall = client.hgetall.bind(client)
  t.intercept(client, 'hgetall', {
    value: async (key: string) => {
      reads++
      most = Math.max(most, ++reading)
      left.abort(new Error('left'))
      return await hgetall(key).finally(() => reading--)
    },
  })
  await t.rejects(readUsageOfAll(client, query, left.signal), { message: 'left' })
  t.equal(reads, 4, 'of the first two accounts')
  await Promise.all([readUsageOfAll(client, query), readUsageOfAll(client, query)])
  t.equal(most, 4, 'also of two callers')
  const pieces = readPiecesOfAll(client, query)
  reads = 0
  await pieces.next()
  await pieces.return(undefined)
  t.equal(reads, 4)
})

t.test('a page reads no more than 2,000 buckets, if it has more than one account', async (t) => {
  const { client, idOf } = await open(t)
  const long = { from: 0, to: 900 * 86_400, bucket: 'day', groupBy: 'account', limit: 10 } as const
  const page = await readUsageOfAll(client, long)
  t.match(page, { last_id: idOf(1), has_more: true })
  const tooLong = { ...long, bucket: 'hour' } as const
  await t.rejects(readUsageOfAll(client, tooLong), { code: 'invalid_parameter', param: 'from' })
})

t.test('its query', async (t) => {
  t.match(parse('group_by=account&limit=7'), { groupBy: 'account', limit: 7, bucket: 'hour' })
  for (const [query, param] of [
    ['group_by=bucket', 'group_by'],
    ['limit=7', 'limit'],
    ['group_by=model&limit=7', 'limit'],
    ['group_by=account&after=txn_1', 'after'],
    ['from=x', 'from'],
  ] as const) {
    t.throws(() => parse(query), { code: 'invalid_parameter', param }, query)
  }
})
