// src/accounts/open-rows.ts: rows are written while they are there, and never anew by a change that is late.

import t from 'tap'
import { amendRow, writeAccount } from '../../src/accounts/open-rows.ts'
import { keys } from '../../src/redis/keys.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'

const { client: redis } = await connectLink(t, (await startRedis(t)).socket)

t.test('an account is changed while it is open', async (t) => {
  const rowOf = (ref: string) => redis.hgetall(keys.account(ref))
  await redis.hset(keys.account('open'), 'id', 'acct_1')
  await redis.hset(keys.account('closed'), 'id', 'acct_2', 'closed_at', '1')
  const change = { name: 'a b', suspended_at: 5 }
  await writeAccount(redis, 'open', change)
  t.strictSame(await rowOf('open'), { id: 'acct_1', name: 'a b', suspended_at: '5' })
  await t.rejects(writeAccount(redis, 'closed', change), { code: 'account_deleted' })
  await t.rejects(writeAccount(redis, 'nobody', change), { code: 'account_not_found' })
  t.strictSame(await rowOf('closed'), { id: 'acct_2', closed_at: '1' })
  t.strictSame(await rowOf('nobody'), {})
})

t.test('a row that has gone stays away', async (t) => {
  await amendRow(redis, 'HSET', { key: 'gone', fields: { a: 1 } })
  t.equal(await redis.exists('gone'), 0)
  await redis.hset('there', 'a', '1')
  await amendRow(redis, 'HSETNX', { key: 'there', fields: { a: 2 } })
  t.strictSame(await redis.hgetall('there'), { a: '1' })
  await amendRow(redis, 'HSET', { key: 'there', fields: { a: 3, b: 2 } })
  t.strictSame(await redis.hgetall('there'), { a: '3', b: '2' })
})
