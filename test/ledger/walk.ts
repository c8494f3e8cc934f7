// Every account is met, once, whatever happens to it while all are gone over.

import t from 'tap'
import { countAccounts, refsWithRests, walkAccounts } from '../../src/ledger/walk.ts'
import { keys } from '../../src/redis/keys.ts'
import { openOn } from '../fixtures/ledger.ts'

/** Numbers of accounts, in the order of their creation. */
const memberOf = (n: number) => `acct_${String(n).padStart(6, '0')}:ref${n}`
const idOf = (n: number) => memberOf(n).split(':')[0] ?? ''

async function open(t: Parameters<typeof openOn>[0], count: number) {
  const { client } = (await openOn(t)).link
  const list = (n: number) => client.zadd(keys.accounts, 0, memberOf(n))
  await Promise.all(Array.from({ length: count }, (_, n) => list(n)))
  const remove = async (n: number) => {
    await client.zadd(keys.deletedAccounts, 0, memberOf(n))
    await client.zrem(keys.accounts, memberOf(n))
  }
  return { client, list, remove }
}

t.test('accounts are met in the order of creation, deleted ones among them', async (t) => {
  const { client, remove } = await open(t, 2500)
  for (const n of [0, 7, 1000, 2499]) await remove(n)
  const met: string[] = []
  for await (const group of walkAccounts(client, 16)) {
    t.ok(group.length <= 16)
    met.push(...group.map(({ id, ref }) => `${id}:${ref}`))
  }
  t.strictSame(
    met,
    Array.from({ length: 2500 }, (_, n) => memberOf(n)),
  )
  t.equal(await countAccounts(client), 2500)
})

t.test('work that no caller waits for rests nine times as long as it works', async (t) => {
  const { client } = await open(t, 25)
  const met: string[] = []
  const rests: number[] = []
  const rest = async (ms: number) => void rests.push(ms)
  const workMs = [1, 30, 0]
  for await (const refs of refsWithRests(client, 10, rest)) {
    t.equal(rests.length, Math.ceil(met.length / 10), 'a rest after each group')
    met.push(...refs)
    const until = performance.now() + (workMs[rests.length] ?? 0)
    while (performance.now() < until);
  }
  t.strictSame(
    met,
    Array.from({ length: 25 }, (_, n) => `ref${n}`),
  )
  const [short = 0, long = 0] = rests
  t.ok(short >= 9 && short <= 20, `${short} ms`)
  t.equal(long, 20)
})

t.test('a walk that rests keeps no process alive', async (t) => {
  const { client } = await open(t, 25)
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  const before = timers()
  const walk = refsWithRests(client, 10)
  await walk.next()
  const second = walk.next()
  t.equal(timers(), before)
  t.ok((await second).value)
})

t.test('a walk begins behind any account, also one that has gone', async (t) => {
  const { client } = await open(t, 10)
  const met: string[] = []
  await client.zrem(keys.accounts, memberOf(5))
  for await (const group of walkAccounts(client, 16, idOf(5)))
    met.push(...group.map(({ id }) => id))
  t.strictSame(met, [6, 7, 8, 9].map(idOf))
  t.equal(await countAccounts(client, idOf(5)), 4)
})

t.test('accounts that are deleted and created meanwhile are met once', async (t) => {
  const { client, list, remove } = await open(t, 2500)
  const met: string[] = []
  let n = 0
  for await (const group of walkAccounts(client, 100)) {
    met.push(...group.map(({ id }) => id))
    // Behind the walk, just before it, and far away.
    for (const one of [n, n + 101, 2400 - n]) if (one >= 0 && one < 2500) await remove(one)
    n += 100
    if (n <= 500) await list(2500 + n / 100)
  }
  const all = [...Array.from({ length: 2500 }, (_, one) => one), 2501, 2502, 2503, 2504, 2505]
  t.strictSame(met, all.map(idOf))
})

t.test('one that is half deleted is in both lists, and met once', async (t) => {
  const { client } = await open(t, 3)
  await client.zadd(keys.deletedAccounts, 0, memberOf(1))
  const met: string[] = []
  for await (const group of walkAccounts(client, 16)) met.push(...group.map(({ id }) => id))
  t.strictSame(met, [0, 1, 2].map(idOf))
})
