// src/accounts/open-rows.ts: rows of an account are written while it is open, and never anew by a change that is late.

import t from 'tap'
import { amendRow, writeRows } from '../../src/accounts/open-rows.ts'
import type { RowChange } from '../../src/accounts/open-rows.ts'
import { keys } from '../../src/redis/redis.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'

const { client: redis } = await connectLink(t, (await startRedis(t)).socket)

t.test('all rows are written, or none', async (t) => {
  const rows = (ref: string): readonly RowChange[] => [
    { key: keys.key(ref, 'h'), fields: { id: 'k', name: 'a b', rpm: 5 } },
    { key: keys.keyList(ref), fields: { k: 'h' } },
  ]
  const written = async (ref: string) => Promise.all(rows(ref).map(({ key }) => redis.hgetall(key)))
  await redis.hset(keys.account('open'), 'id', 'acct_1')
  await redis.hset(keys.account('closed'), 'id', 'acct_2', 'closed_at', '1')
  await writeRows(redis, 'open', rows('open'))
  t.strictSame(await written('open'), [{ id: 'k', name: 'a b', rpm: '5' }, { k: 'h' }])
  await t.rejects(writeRows(redis, 'closed', rows('closed')), { code: 'account_deleted' })
  await t.rejects(writeRows(redis, 'nobody', rows('nobody')), { code: 'account_not_found' })
  for (const ref of ['closed', 'nobody']) t.strictSame(await written(ref), [{}, {}], ref)
})

t.test('a row that has gone stays away', async (t) => {
  await amendRow(redis, 'HSET', { key: 'gone', fields: { a: 1 } })
  t.equal(await redis.exists('gone'), 0)
  await redis.hset('there', 'a', '1')
  await amendRow(redis, 'HSETNX', { key: 'there', fields: { a: 2, b: 2 } })
  t.strictSame(await redis.hgetall('there'), { a: '1', b: '2' })
  await amendRow(redis, 'HSET', { key: 'there', fields: { a: 3 } })
  t.strictSame(await redis.hgetall('there'), { a: '3', b: '2' })
})
