// The journal across the border of stream and archive: the same list before and after, in both directions, and exact
// sums.

import t from 'tap'
import type { Test } from 'tap'
import { createArchive } from '../../src/ledger/archive.ts'
import type { ObjectStore } from '../../src/store/store.ts'
import { ledgerScripts } from '../../src/ledger/library.ts'
import { createScripts } from '../../src/redis/scripts.ts'
import type { Page } from '../../src/http/page.ts'
import { readPieces, readTransactions } from '../../src/ledger/journal.ts'
import { diskStore } from '../../src/store/disk.ts'
import { keys } from '../../src/redis/keys.ts'
import { connectLink, makeAccount, openLedger, request, topUp, used } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

const server = await startRedis(t)

/** An account with 1 top-up and 24 charges. */
async function open(t: Test) {
  const link = await connectLink(t, server.socket)
  const store = diskStore(await tempDir(t))
  const ledger = await openLedger(t, { link, archiveStore: store })
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 10_000)
  for (let i = 0; i < 24; i++)
    await ledger.settle(await ledger.admit(request(caller, 10)), used(1 + (i % 7)))
  const archiveInto = (place: ObjectStore) => {
    const scripts = createScripts({ library: ledgerScripts, link })
    return createArchive({ redis: link.client, scripts, store: place })
  }
  const list = (page: Partial<Page>) =>
    ledger.transactions(caller.ref, { limit: 100, order: 'asc', ...page })
  /** The time of the entry at this place; older entries are archived. */
  const timeOf = async (index: number) => {
    const entries = await link.client.xrange(keys.journal(caller.ref), '-', '+')
    return Number.parseInt(entries[index]?.[0] ?? '', 10)
  }
  return { link, ledger, caller, store, archiveInto, list, timeOf }
}

t.test('for an account without old entries, the store is not asked', async (t) => {
  const { caller, store, archiveInto, timeOf } = await open(t)
  const asked: string[] = []
  const list = (prefix: string) => {
    asked.push(prefix)
    return store.list(prefix)
  }
  const place = { ...store, list }
  const cut = await timeOf(3)
  t.equal(await archiveInto(place).archive(caller.ref, 1), 0)
  t.strictSame(asked, [])
  t.ok((await archiveInto(place).archive(caller.ref, cut + 1)) > 0)
  t.ok(asked.length > 0)
})

t.test('lists are the same across the border, in both directions, from each cursor', async (t) => {
  const { link, ledger, caller, store, archiveInto, list, timeOf } = await open(t)
  const all = (await list({})).data
  const cut = await timeOf(16)
  const archived = await archiveInto(store).archive(caller.ref, cut)
  t.ok(archived > 5 && archived <= 16)
  t.equal(await link.client.xlen(keys.journal(caller.ref)), 25 - archived)
  t.same((await list({})).data, all)
  t.same((await list({ order: 'desc' })).data, all.toReversed())
  for (const order of ['asc', 'desc'] as const) {
    const rows = order === 'asc' ? all : all.toReversed()
    for (const [i, { id }] of rows.entries()) {
      const after = await list({ order, after: id, limit: 6 })
      t.same(after.data, rows.slice(i + 1, i + 7))
      t.equal(after.has_more, i + 7 < rows.length)
      const before = await list({ order, before: id, limit: 6 })
      t.same(before.data, rows.slice(Math.max(0, i - 6), i))
      t.equal(before.has_more, i > 6)
    }
  }
  const report = await ledger.audit(caller.ref)
  t.match(report, { accounts: 1, entries: 25 })
  t.same(report.differences, [])
})

t.test('what is owed and repaid stays exact across the border', async (t) => {
  const { ledger, caller, store, archiveInto, list, timeOf, link } = await open(t)
  const balance = (await ledger.balance(caller.ref)).available
  await ledger.settle(await ledger.admit(request(caller, balance)), used(balance + 100))
  await topUp(ledger, caller, 30)
  const all = (await list({})).data
  t.match(all.slice(-3), [{ owed: 100 }, { type: 'topup' }, { type: 'repayment', amount: -30 }])
  // Between the debt and its first payment, and after both.
  for (const cut of [await timeOf(26), Date.now() + 1000]) {
    await archiveInto(store).archive(caller.ref, cut)
    t.same((await list({})).data, all)
    t.same((await ledger.audit(caller.ref)).differences, [])
  }
  t.equal(await link.client.hget(keys.account(caller.ref), 'archived_owed'), '70')
  await topUp(ledger, caller, 100)
  t.match(await ledger.balance(caller.ref), { owed: 0, available: 30 })
  t.same((await ledger.audit(caller.ref)).differences, [])
  // The sum is 0 again.
  await archiveInto(store).archive(caller.ref, Date.now() + 1000)
  t.equal(await link.client.hget(keys.account(caller.ref), 'archived_owed'), null)
  t.same((await ledger.audit(caller.ref)).differences, [])
  await link.client.hincrby(keys.account(caller.ref), 'archived_owed', 1)
  t.match((await ledger.audit(caller.ref)).differences, [{ what: 'archived owed' }])
})

t.test('what budgets used is audited across the border', async (t) => {
  const { ledger, link, caller, store, archiveInto } = await open(t)
  const row = keys.account(caller.ref)
  await link.client.hset(row, { budget: '500 month' })
  const spend = async () => ledger.settle(await ledger.admit(request(caller, 10)), used(10))
  await spend()
  await archiveInto(store).archive(caller.ref, Date.now() + 1000)
  await spend()
  const differences = async () => (await ledger.audit(caller.ref)).differences
  t.same(await differences(), [])
  const window = (await link.client.hget(row, 'window')) ?? ''
  await link.client.hset(row, { window: window.replace(/ 20$/, ' 19') })
  t.match(await differences(), [{ what: 'budget of the account', expected: 20, found: 19 }])
})

const dayMs = 86_400_000

t.test('of an account that rests, no empty journal stays', async (t) => {
  const { link, ledger, caller, store, archiveInto, list } = await open(t)
  const key = keys.journal(caller.ref)
  const entries = await link.client.xrange(key, '-', '+')
  await link.client.del(key)
  for (const [id, fields] of entries) await link.client.xadd(key, olderId(id), ...fields)
  const all = (await list({})).data
  const isSame = async () => {
    t.same((await list({})).data.slice(0, all.length), all)
    t.same((await ledger.audit(caller.ref)).differences, [])
  }
  await archiveInto(store).archive(caller.ref, Date.now() - dayMs)
  t.equal(await link.client.exists(key), 0)
  await isSame()
  await topUp(ledger, caller, 30)
  await isSame()
  t.match((await list({})).data.slice(all.length), [{ type: 'topup', amount: 30 }])
  // Of what is not a day old: were Redis' clock behind, a new journal could begin with an id that is used up.
  await archiveInto(store).archive(caller.ref, Date.now() + 1000)
  t.equal(await link.client.exists(key), 1)
  t.equal(await link.client.xlen(key), 0)
  await isSame()
})

t.test('of an account that rests, nothing stays that a missing field says too', async (t) => {
  const { link, ledger, caller, store, archiveInto } = await open(t)
  const { client } = link
  const row = keys.account(caller.ref)
  const key = keys.journal(caller.ref)
  const archive = async () => {
    // As if all entries were two days old.
    const entries = await client.xrange(key, '-', '+')
    await client.del(key)
    for (const [id, fields] of entries) await client.xadd(key, olderId(id), ...fields)
    await archiveInto(store).archive(caller.ref, Date.now() - dayMs)
    t.equal(await client.exists(key), 0)
    t.same((await ledger.audit(caller.ref)).differences, [])
  }
  const namesOf = async () => Object.keys(await client.hgetall(row)).toSorted()
  const counters = (names: readonly string[]) =>
    names.filter((name) => name.startsWith('open:') || /^(minute|requests|tokens)$/.test(name))
  await client.hset(row, { minute: Math.floor(Date.now() / 60_000) + 1 })
  await archive()
  t.strictSame(counters(await namesOf()), ['minute', 'requests', 'tokens'], 'not over')

  await topUp(ledger, caller, 1)
  await client.hset(row, { minute: 1 })
  const hold = await ledger.admit(request(caller, 10))
  await client.hset(row, { minute: 1 })
  await archive()
  t.match(counters(await namesOf()), [/^open:/], 'a hold is open')
  t.equal(await client.hget(row, 'requests'), null)

  await ledger.settle(hold, used(5))
  await client.hset(row, { minute: 1, requests: 7, tokens: 9 })
  await archive()
  t.strictSame(
    (await namesOf()).filter((name) => counters([name]).length > 0 || name.startsWith('archived_')),
    ['archived_granted', 'archived_last', 'archived_spent'],
  )

  // All goes on as before.
  await ledger.settle(await ledger.admit(request(caller, 10)), used(5))
  t.equal(await client.hget(row, 'requests'), '1')
  t.same((await ledger.audit(caller.ref)).differences, [])
})

function olderId(id: string): string {
  const [at = '', sequence] = id.split('-')
  return `${Number(at) - 2 * dayMs}-${sequence}`
}

t.test('what was archived in several runs is one list', async (t) => {
  const { ledger, caller, store, archiveInto, list, timeOf } = await open(t)
  const all = (await list({})).data
  for (let i = 0; i < 3; i++) await archiveInto(store).archive(caller.ref, await timeOf(5))
  await archiveInto(store).archive(caller.ref, Date.now() + 1000)
  t.same((await list({ order: 'desc' })).data, all.toReversed())
  t.equal((await store.list(`journal/${caller.ref}/`)).length > 2, true)
  t.same((await ledger.audit(caller.ref)).differences, [])
  await ledger.settle(await ledger.admit(request(caller, 10)), used(3))
  t.equal((await list({})).data.length, 26)
  t.same((await ledger.audit(caller.ref)).differences, [])
})

t.test('after a crash between writing and trimming, the next run uses the object', async (t) => {
  const { ledger, caller, store, archiveInto, list, timeOf, link } = await open(t)
  const all = (await list({})).data
  const crashing: ObjectStore = {
    ...store,
    get: () => Promise.reject(new Error('killed')),
  }
  await t.rejects(archiveInto(crashing).archive(caller.ref, await timeOf(10)), {
    message: 'killed',
  })
  t.equal(await link.client.xlen(keys.journal(caller.ref)), 25, 'nothing left Redis')
  await ledger.settle(await ledger.admit(request(caller, 10)), used(3))
  await archiveInto(store).archive(caller.ref, Date.now() + 1000)
  await archiveInto(store).archive(caller.ref, Date.now() + 1000)
  t.same((await list({})).data.slice(0, 25), all)
  t.equal(await link.client.xlen(keys.journal(caller.ref)), 0)
  t.same((await ledger.audit(caller.ref)).differences, [])
})

t.test('what is in the archive and still in the stream is listed once', async (t) => {
  const { caller, store, archiveInto, list, timeOf } = await open(t)
  const all = (await list({})).data
  await archiveInto(store).archive(caller.ref, await timeOf(5))
  // The object is written, but its entries are not removed from the stream yet.
  const crashing: ObjectStore = { ...store, get: () => Promise.reject(new Error('killed')) }
  await t.rejects(archiveInto(crashing).archive(caller.ref, await timeOf(10)))
  t.equal((await store.list(`journal/${caller.ref}/`)).length, 2)
  for (const order of ['asc', 'desc'] as const) {
    const rows = order === 'asc' ? all : all.toReversed()
    t.same((await list({ order })).data, rows)
    for (const [i, { id }] of rows.entries()) {
      t.same((await list({ order, after: id, limit: 100 })).data, rows.slice(i + 1))
    }
  }
})

t.test('when an object does not read back as it was written, the journal stays', async (t) => {
  const { caller, store, archiveInto, link } = await open(t)
  const broken: ObjectStore = {
    ...store,
    get: async (name) => (await store.get(name)).subarray(1),
  }
  await t.rejects(archiveInto(broken).archive(caller.ref, Date.now() + 1000), {
    message: /did not keep/,
  })
  t.equal(await link.client.xlen(keys.journal(caller.ref)), 25)
})

t.test('two gateways that archive at once lose nothing', async (t) => {
  const { ledger, caller, store, archiveInto, list, timeOf } = await open(t)
  const all = (await list({})).data
  const cuts = [await timeOf(8), await timeOf(12), Date.now() + 1000]
  await Promise.all(cuts.map((cut) => archiveInto(store).archive(caller.ref, cut)))
  t.same((await list({})).data, all)
  t.same((await ledger.audit(caller.ref)).differences, [])
})

/** 2,000 archived entries in five objects and 300 in the stream, one a second; every 400th is a top-up. The store counts. */
async function openLong(t: Test) {
  const link = await connectLink(t, server.socket)
  const { client: redis } = link
  const { ref } = await makeAccount(link)
  const store = diskStore(await tempDir(t))
  const scripts = createScripts({ library: ledgerScripts, link })
  const asked: string[] = []
  const counting: ObjectStore = {
    ...store,
    list(prefix) {
      asked.push('list')
      return store.list(prefix)
    },
    get(name) {
      asked.push(name)
      return store.get(name)
    },
  }
  const archive = createArchive({ redis, scripts, store: counting })
  const add = async (from: number, to: number) => {
    const pipeline = redis.pipeline()
    for (let i = from; i < to; i++) {
      const type = i % 400 === 0 ? 'topup' : 'charge'
      const fields = { type, amount: '0', balance: '0', meta: '{}', usage: '1 0 1', flags: '' }
      pipeline.xadd(keys.journal(ref), `${(1000 + i) * 1000}-1`, ...Object.entries(fields).flat())
    }
    await pipeline.exec()
  }
  await add(0, 2300)
  for (let to = 400; to <= 2000; to += 400) await archive.archive(ref, (1000 + to) * 1000)
  t.equal((await store.list(`journal/${ref}/`)).length, 5)
  /** What the store was asked for meanwhile: how many lists, and objects. */
  const counted = async <T>(work: () => Promise<T>) => {
    asked.length = 0
    const result = await work()
    const lists = asked.filter((word) => word === 'list').length
    return { result, lists, gets: asked.length - lists }
  }
  return { ref, redis, archive, add, counted, place: { redis, archive } }
}

t.test('one search lists the archive once and reads each object once', async (t) => {
  const { ref, place, counted } = await openLong(t)
  const exported = await counted(async () => {
    let count = 0
    for await (const rows of readPieces(place, ref, {})) count += rows.length
    return count
  })
  t.same(exported, { result: 2300, lists: 1, gets: 5 })
  for (const order of ['asc', 'desc'] as const) {
    const query = { limit: 100, order, type: 'topup' } as const
    const page = await counted(() => readTransactions(place, ref, query))
    t.equal(page.result.data.length, 6)
    t.match(page, { lists: 1, gets: 5 }, order)
  }
})

t.test('a search for what the archive cannot have does not ask the store', async (t) => {
  const { ref, place, counted } = await openLong(t)
  for (const order of ['asc', 'desc'] as const) {
    for (const filter of [{}, { type: 'charge' }] as const) {
      const query = { limit: 100, order, from: 3200, ...filter }
      const page = await counted(() => readTransactions(place, ref, query))
      t.equal(page.result.data.length, 100)
      t.match(page, { lists: 0, gets: 0 }, `${order} ${JSON.stringify(filter)}`)
    }
  }
  const part = await counted(() =>
    readTransactions(place, ref, { limit: 100, order: 'desc', from: 2990, to: 2995 }),
  )
  t.equal(part.result.data.length, 5)
  t.match(part, { lists: 1, gets: 1 }, 'nor for objects that it cannot be in')
})

t.test('what is archived in the middle of an export is neither missing nor twice', async (t) => {
  const { ref, place, archive, add } = await openLong(t)
  await add(2300, 4000)
  const ids: string[] = []
  let pieces = 0
  for await (const rows of readPieces(place, ref, {})) {
    ids.push(...rows.map(({ id }) => id))
    if (++pieces % 2 === 1) await archive.archive(ref, (3000 + pieces * 200) * 1000)
  }
  t.equal(ids.length, 4000)
  t.equal(new Set(ids).size, 4000)
  t.strictSame(ids, ids.toSorted())
})

t.test('searches of an account that run at once share what they know', async (t) => {
  const { ref, place, counted } = await openLong(t)
  const query = { limit: 100, order: 'asc', type: 'topup' } as const
  const pages = await counted(() =>
    Promise.all(Array.from({ length: 20 }, () => readTransactions(place, ref, query))),
  )
  for (const page of pages.result) t.equal(page.data.length, 6)
  t.match(pages, { lists: 1 })
})
