// The counted bytes of files are those that exist, whatever happens: parallel uploads of two gateways on one Redis,
// with connections cut while replies are on the way, aborts, deaths, frozen uploads, deletions, expiries, deleted
// sessions, a store that fails.

import { env } from 'node:process'
import { setTimeout as pause } from 'node:timers/promises'
import type { Redis } from '../../src/redis/client.ts'
import t from 'tap'
import type { Test } from 'tap'
import { GatewayError } from '../../src/errors.ts'
import { announce } from '../../src/files/due.ts'
import { objectName } from '../../src/files/file-row.ts'
import { FileBook } from '../../src/files/files.ts'
import { Sweeper } from '../../src/files/sweeper.ts'
import { keys } from '../../src/redis/keys.ts'
import { startDelayProxy } from '../fixtures/delay-proxy.ts'
import type { DelayProxy } from '../fixtures/delay-proxy.ts'
import {
  addSession,
  dueOf,
  fileRow,
  isForgotten,
  openFiles,
  partsOn,
  storageOf,
} from '../fixtures/file-rows.ts'
import type { TestStore } from '../fixtures/file-rows.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { seeded } from '../fixtures/random.ts'
import type { Random } from '../fixtures/random.ts'
import { until } from '../fixtures/until.ts'

const seed = Number(env.SEED ?? Date.now() % 1_000_000)
const uploads = Number(env.UPLOADS ?? 1200)
const atOnce = 24
const quotaBytes = 150_000

interface World {
  readonly redis: Redis
  readonly ref: string
  readonly store: TestStore
  readonly random: Random
  readonly sessions: string[]
  readonly seen: Map<string, number>
}

interface Gateway {
  readonly book: FileBook
  readonly sweeper: Sweeper
  readonly proxy: DelayProxy
}

async function startBoth(t: Test) {
  const { server, redis, ref, store, scripts, sweeper } = await openFiles(t)
  await scripts.load()
  const start = async (): Promise<Gateway> => {
    const proxy = await startDelayProxy(t, server.socket)
    const link = await connectLink(t, proxy.socket)
    const options = { ...partsOn(link), store }
    return {
      proxy,
      book: new FileBook({ ...options, retryMs: 0 }),
      sweeper: new Sweeper({
        ...options,
        everyMs: 0,
        takenMs: 500,
        // The second look is an hour later, after this test. Only it can find what a frozen upload puts and fails to
        // remove.
        onProblem: () => undefined,
      }),
    }
  }
  const sessions = await Promise.all(Array.from({ length: 8 }, () => addSession(redis, ref)))
  const world: World = { redis, ref, store, random: seeded(seed), sessions, seen: new Map() }
  return { world, gateways: [await start(), await start()], last: sweeper() }
}

function count({ seen }: World, what: string): void {
  seen.set(what, (seen.get(what) ?? 0) + 1)
}

/** Uploads as the shelf does; some stop without notice, as if killed, some freeze. */
async function upload(world: World, { book }: Gateway): Promise<void> {
  const { ref, store, random, sessions } = world
  const session = sessions[random(sessions.length)] ?? ''
  const expiresAt = random(4) === 0 ? 1 : null
  const row = fileRow({ session, bytes: random(8) * 1000, expiresAt })
  const { id, bytes } = row
  const name = objectName(ref, id)
  try {
    await book.begin(ref, row)
    for (let total = 0; total < bytes;) {
      total = Math.min(bytes, total + 1 + random(3000))
      await book.reserve(ref, { id, bytes: total, quotaBytes })
    }
    store.unfinished.add(name)
    const fate = random(8)
    if (fate === 0) return await die(world, id)
    if (fate === 1) throw new Error('the client left')
    if (fate === 2) await freeze(world, id)
    store.unfinished.delete(name)
    store.objects.add(name)
    if (fate === 3) return await die(world, id)
    await book.commit(ref, row, { quotaBytes })
    count(world, 'committed')
    if (random(3) === 0) await book.remove(ref, id)
  } catch (error) {
    const code = error instanceof GatewayError ? error.code : 'aborted'
    count(world, code)
    if (code === 'ledger_unavailable') return
    if (code === 'storage_quota_exceeded') await makeRoom(world, book)
    if (code === 'file_expired' || code === 'file_not_found') return
    await giveUp(world, book, id)
  }
}

async function makeRoom({ redis, ref, random }: World, book: FileBook): Promise<void> {
  const ids = await redis.zrange(keys.files(ref), '0', '-1')
  const some = ids.filter(() => random(3) === 0)
  await Promise.allSettled(some.map((id) => book.remove(ref, id)))
}

async function giveUp({ ref, store }: World, book: FileBook, id: string): Promise<void> {
  try {
    await store.abandon(objectName(ref, id))
    await book.abandon(ref, id)
  } catch {
    return // the sweeper's
  }
}

/** Lets the upload's lease end at some time. */
async function die(world: World, id: string): Promise<void> {
  count(world, 'killed')
  await endLeases(world, [`upload ${id}`])
}

/** Stops for longer than the lease, while others go on. */
async function freeze(world: World, id: string): Promise<void> {
  await endLeases(world, [`upload ${id}`])
  count(world, 'frozen')
  await pause(world.random(20))
}

async function endLeases({ redis, ref }: World, members: readonly string[]): Promise<void> {
  await announce(redis, { ref, minute: 0 })
  for (const member of members) await redis.zadd(keys.due(ref), 'XX', 0, member)
}

const look = `
local used, sums = 0, {}
for _, key in ipairs(redis.call('KEYS', '*:file:*')) do
  used = used + (redis.call('HGET', key, 'bytes') or 0)
end
local reserved = 0
local all = redis.call('HGETALL', KEYS[1])
local named = {}
for i = 1, #all, 2 do
  named[all[i]] = all[i + 1]
  if all[i]:sub(1, 5) == 'file_' then reserved = reserved + all[i + 1] end
end
return { used, reserved, tonumber(named.used or 0), tonumber(named.reserved or 0) }`

async function check({ redis, ref }: World): Promise<void> {
  const [rows, open, used, reserved] = (await redis.eval(look, 1, keys.storage(ref))) as number[]
  const all = JSON.stringify({ rows, open, used, reserved })
  if (used !== rows || reserved !== open) throw new Error(`drift: ${all}`)
  if ((used ?? 0) + (reserved ?? 0) > quotaBytes) throw new Error(`over the quota: ${all}`)
}

async function disturb(world: World, { proxy, sweeper, book }: Gateway): Promise<void> {
  const { random, redis, ref, store, sessions } = world
  proxy.setDelay(random(4))
  if (random(2) === 0) {
    proxy.cut()
    count(world, 'cut')
  }
  if (random(5) === 0) store.failures = random(4)
  if (random(10) === 0) {
    const [gone = ''] = sessions.splice(random(sessions.length), 1, await addSession(redis, ref))
    await redis.del(keys.session(ref, gone))
    await endLeases(world, [`session ${gone}`])
    // Otherwise the sweeper removes them.
    if (random(2) === 0) await book.removeSession(ref, gone).catch(() => undefined)
    count(world, 'session gone')
  }
  const swept = await sweeper.sweep().catch(() => 0)
  await pause(random(20))
  for (let one = 0; one < swept; one++) count(world, 'swept')
}

t.test(`the counted bytes are those of the files that exist (SEED=${seed})`, async (t) => {
  const { world, gateways, last } = await startBoth(t)
  const { redis, ref, store, sessions } = world
  let left = uploads
  const uploading = gateways.flatMap((gateway) =>
    Array.from({ length: atOnce / 2 }, async () => {
      while (left-- > 0) await upload(world, gateway)
    }),
  )
  const state = { isDone: false }
  const ended = Promise.all(uploading).finally(() => (state.isDone = true))
  const untilThen = async (again: () => Promise<void>) => {
    while (!state.isDone) await again()
  }
  await Promise.all([
    ...gateways.map((gateway) => untilThen(() => disturb(world, gateway))),
    untilThen(async () => {
      await check(world)
      count(world, 'looks')
      if (await isForgotten(redis, ref)) throw new Error('something is due that nobody would find')
    }),
    ended,
  ])
  t.comment(Object.fromEntries(world.seen))
  for (const what of ['committed', 'killed', 'frozen', 'cut', 'storage_quota_exceeded', 'swept']) {
    t.ok(world.seen.get(what), what)
  }

  store.failures = 0
  await until(async () => {
    await check(world)
    const due = await dueOf(redis, ref)
    const work = due.filter((member) => !member.startsWith('session'))
    await endLeases(world, work)
    await last.sweep()
    return work.length === 0
  })
  const ids = await redis.zrange(keys.files(ref), '0', '-1')
  t.strictSame(
    [...store.objects].toSorted(),
    ids.map((id) => objectName(ref, id)),
    'an object for each row, and no other',
  )
  t.strictSame([...store.unfinished], [])
  const [rows, open, used, reserved] = (await redis.eval(look, 1, keys.storage(ref))) as number[]
  t.strictSame([used, reserved, open], [rows, 0, 0])

  for (const session of sessions) await redis.del(keys.session(ref, session))
  await endLeases(world, await dueOf(redis, ref))
  await last.sweep()
  t.strictSame(await storageOf(redis, ref), { used: 0, reserved: 0 })
  t.strictSame(await dueOf(redis, ref), [])
  t.equal(store.objects.size, 0)
})
