// src/accounts/account-names.ts: one owner at a time, also between the taking and the row that it is for.

import t from 'tap'
import type { Test } from 'tap'
import { nameOwner, takeName } from '../../src/accounts/account-names.ts'
import { keys } from '../../src/redis/keys.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'

async function start(t: Test) {
  const { client: redis } = await connectLink(t, (await startRedis(t)).socket)
  const rows = new Set<string>()
  const ask = (id: string) =>
    takeName(redis, { what: 'name', text: 'n', id, isHeldBy: async (other) => rows.has(other) })
  return { redis, rows, ask, owner: () => nameOwner(redis, 'name', 'n') }
}

t.test('a name whose row is being written cannot be claimed, nor one that has a row', async (t) => {
  const { rows, ask, owner } = await start(t)
  const taken = await ask('one')
  t.equal(await ask('two'), undefined, 'its row is being written')
  rows.add('one')
  await taken?.done()
  t.equal(await ask('two'), undefined)
  t.ok(await ask('one'), 'its own it may take again')
  t.equal(await owner(), 'one')
})

t.test('of two calls for one account, the first to end leaves the name to the other', async (t) => {
  const { ask, owner } = await start(t)
  const [first, second] = [await ask('one'), await ask('one')]
  await second?.done()
  t.equal(await ask('two'), undefined, 'a row is still being written')
  await first?.done()
  t.ok(await ask('two'), 'neither row has it')
  t.equal(await owner(), 'two')
})

t.test('what was given up, or has never got its row, is taken by one', async (t) => {
  const { redis, ask, owner } = await start(t)
  t.equal(await owner(), undefined)
  await (await ask('one'))?.done()
  const asking = ['two', 'three', 'four', 'five'].map(ask)
  const [winner, ...others] = (await Promise.all(asking)).filter(Boolean)
  t.equal(others.length, 0)
  // Of a gateway that was killed before it wrote the row.
  await redis.hset(keys.nameOwners, 'name:n', `six ${Date.now() - 60_000}`)
  t.ok(await ask('seven'))
  await winner?.done()
  t.equal(await owner(), 'seven', 'who comes late takes nothing back')
})
