// src/accounts/account-claims.ts: one owner at a time, also between the claim and the row that it is for.

import t from 'tap'
import type { Test } from 'tap'
import { Redis } from 'ioredis'
import { claim, claimedBy } from '../../src/accounts/account-claims.ts'
import { keys } from '../../src/redis/redis.ts'
import { startRedis } from '../fixtures/redis-server.ts'

async function start(t: Test) {
  const server = await startRedis(t)
  const redis = new Redis(server.socket, { maxRetriesPerRequest: 0 })
  t.teardown(() => redis.disconnect())
  const rows = new Set<string>()
  const ask = (id: string) =>
    claim(redis, { what: 'name', text: 'n', id, isHeldBy: async (other) => rows.has(other) })
  return { redis, rows, ask, owner: () => claimedBy(redis, 'name', 'n') }
}

t.test('a name whose row is being written cannot be claimed, nor one that has a row', async (t) => {
  const { rows, ask, owner } = await start(t)
  const claimed = await ask('one')
  t.equal(await ask('two'), undefined, 'its row is being written')
  rows.add('one')
  await claimed?.settle()
  t.equal(await ask('two'), undefined)
  t.ok(await ask('one'), 'its own it may claim again')
  t.equal(await owner(), 'one')
})

t.test('a name that was given up, or never got its row, is claimed by exactly one', async (t) => {
  const { redis, ask, owner } = await start(t)
  t.equal(await owner(), undefined)
  await (await ask('one'))?.settle()
  const asking = ['two', 'three', 'four', 'five'].map(ask)
  const [winner, ...others] = (await Promise.all(asking)).filter(Boolean)
  t.equal(others.length, 0)
  // The claim of a gateway that was killed before it wrote the row.
  await redis.hset(keys.accountClaims, 'name:n', `six ${Date.now() - 60_000}`)
  t.ok(await ask('seven'))
  await winner?.settle()
  t.equal(await owner(), 'seven', 'who comes late takes nothing back')
})
