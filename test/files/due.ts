import { env } from 'node:process'
import t from 'tap'
import {
  announce,
  announced,
  dueMember,
  minuteOf,
  parseAnnouncement,
  parseDue,
  persistently,
  rememberAnnouncements,
} from '../../src/files/due.ts'
import { FileBook } from '../../src/files/files.ts'
import { Sweeper } from '../../src/files/sweeper.ts'
import { newRef } from '../../src/accounts/api-key.ts'
import { keys } from '../../src/redis/keys.ts'
import { unavailable } from '../../src/redis/scripts.ts'
import { startDelayProxy } from '../fixtures/delay-proxy.ts'
import {
  addFile,
  addSession,
  dueOf,
  fileRow,
  isForgotten,
  openFiles,
  memoryStore,
  quotaBytes,
  rowBytes,
  partsOn,
  storageOf,
} from '../fixtures/file-rows.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { seeded } from '../fixtures/random.ts'
import { Turns } from '../fixtures/turns.ts'
import { until } from '../fixtures/until.ts'

t.test('members are read back, and foreign ones are ignored', async (t) => {
  const ref = newRef()
  t.strictSame(parseAnnouncement(`29000000:${ref}`), { minute: 29_000_000, ref })
  for (const member of ['', ':', '1:', `:${ref}`, `-1:${ref}`, '1:a b', `1:${ref}:x`, '1.5:a']) {
    t.equal(parseAnnouncement(member), undefined, member)
  }
  t.strictSame(parseDue(dueMember('object', 'a', 3)), { kind: 'object', id: 'a' })
  t.equal(dueMember('upload', 'a'), 'upload a')
  t.strictSame(parseDue(''), { kind: '', id: '' })
  t.equal(minuteOf(119_999), 1)
})

t.test('an announcement too late, or from a wrong clock, is made again', async (t) => {
  const { redis, ref, scripts, session } = await openFiles(t)
  const names = [keys.session(ref, session), keys.storage(ref), keys.due(ref), keys.account(ref)]
  const now = minuteOf(Date.now())
  await redis.hset(keys.storage(ref), 'closed', now + 1)
  for (const [dueMs, expected] of [
    [Date.now(), now + 2],
    [0, now + 2],
    [Date.now() + 1e9, now + 2],
  ] as const) {
    await redis.del(keys.due(ref), keys.dueAccounts)
    const run = (minute: string) =>
      scripts.run('begin', names, [`file_${dueMs}`, '0 0 0', '0', minute])
    t.equal((await announced(redis, { ref, dueMs, run })).word, 'ok')
    t.equal(await redis.zscore(keys.dueAccounts, `${expected}:${ref}`), `${expected * 60_000}`)
    t.notOk(await isForgotten(redis, ref))
  }
})

t.test('an announcement is made once, until its minute is closed', async (t) => {
  const { book, redis, link, ref, session } = await openFiles(t)
  rememberAnnouncements(link)
  const begin = async () => {
    const { id } = fileRow({ session })
    await redis.config('RESETSTAT')
    await book.begin(ref, { id, session })
    t.notOk(await isForgotten(redis, ref))
    const [, calls = '0'] = /cmdstat_zadd:calls=(\d+)/.exec(await redis.info('commandstats')) ?? []
    await book.abandon(ref, id)
    return Number(calls) - 1
  }
  t.equal(await begin(), 1)
  t.equal(await begin(), 0)
  // As a sweeper does it.
  const [member = ''] = await redis.zrange(keys.dueAccounts, '0', '-1')
  await redis.hset(keys.storage(ref), 'closed', Number.parseInt(member))
  await redis.zrem(keys.dueAccounts, member)
  t.equal(await begin(), 1)
  t.equal(await begin(), 0)
  t.equal(await begin(), 0)
})

t.test('an announcement that Redis may have lost is made again', async (t) => {
  const { server, redis: other, ref, session } = await openFiles(t)
  const link = await connectLink(t, server.socket)
  rememberAnnouncements(link)
  const scripts = partsOn(link)
  const book = new FileBook({ ...scripts, store: memoryStore() })
  const begin = () => book.begin(ref, fileRow({ session }))
  await begin()
  // A replica that did not have it has become the primary.
  const lose = () => other.del(keys.dueAccounts)
  await lose()
  await begin()
  t.ok(await isForgotten(other, ref), 'it is not repeated on the same connection')
  const back = new Promise<void>((resolve) => link.onReady(resolve))
  link.cut()
  await back
  await begin()
  t.notOk(await isForgotten(other, ref))
})

t.test(
  'one whose connection was lost before the reply of its script is not remembered',
  async (t) => {
    const { redis, ref, link } = await openFiles(t)
    const listeners: (() => void)[] = []
    rememberAnnouncements({ client: link.client, onReady: (one) => void listeners.push(one) })
    const ok = { word: 'ok', nowMs: 0, values: ['ok', 0] }
    const dueMs = Date.now()
    const run = async () => {
      for (const one of listeners) one()
      return ok
    }
    await announced(redis, { ref, dueMs, run })
    await redis.del(keys.dueAccounts)
    await announced(redis, { ref, dueMs, run: async () => ok })
    t.equal(await redis.zcard(keys.dueAccounts), 1)
  },
)

t.test('if minutes are closed again and again, it gives up', async (t) => {
  const { redis, ref } = await openFiles(t)
  let tries = 0
  const run = async () => ({ word: 'announce', nowMs: 0, values: ['announce', 0, ++tries] })
  await t.rejects(announced(redis, { ref, dueMs: 0, run }), { code: 'ledger_unavailable' })
  t.equal(tries, 5)
})

t.test('only what may have run is repeated', async (t) => {
  const { redis } = await openFiles(t)
  const refused = unavailable(Object.assign(new Error('OOM'), { name: 'ReplyError' }))
  for (const [error, expected] of [
    [unavailable(new Error('timeout')), 3],
    [refused, 1],
    [new TypeError('ours'), 1],
  ] as const) {
    const asks: boolean[] = []
    const ask = async (isRepeated: boolean) => {
      asks.push(isRepeated)
      throw error
    }
    await t.rejects(persistently(redis, ask), error)
    t.strictSame(asks, [false, true, true].slice(0, expected))
  }
})

t.test('a call whose reply was lost is repeated, and counts once', async (t) => {
  const { server, redis, ref, scripts, session, store } = await openFiles(t)
  await scripts.load()
  const proxy = await startDelayProxy(t, server.socket)
  const link = await connectLink(t, proxy.socket)
  const book = new FileBook({ ...partsOn(link), store })
  /** Cuts the connection when the command has run and its reply is on the way. */
  const losing = async <T>(ask: Promise<T>, hasRun: () => Promise<boolean>): Promise<T> => {
    await until(hasRun)
    proxy.cut()
    proxy.resume()
    return await ask
  }
  const row = fileRow({ session })
  const { id } = row
  proxy.stall()
  // Just enough for one: counted twice, it would be refused.
  const most = { quotaBytes: 1000 + rowBytes }
  const begun = book.begin(ref, row, { bytes: 900, ...most })
  await losing(begun, async () => (await dueOf(redis, ref)).length > 0)
  t.strictSame(await storageOf(redis, ref), { used: 0, reserved: 900 + rowBytes })
  proxy.stall()
  const reserved = book.reserve(ref, { id, bytes: 1000, ...most })
  await losing(reserved, async () => (await storageOf(redis, ref)).reserved > 900 + rowBytes)
  t.strictSame(await storageOf(redis, ref), { used: 0, reserved: 1000 + rowBytes })
  store.objects.add(`files/${ref}/${id}`)
  proxy.stall()
  const committed = book.commit(ref, row, { quotaBytes: 4000 })
  await losing(committed, async () => (await storageOf(redis, ref)).used > 0)
  t.strictSame(await storageOf(redis, ref), { used: 1000, reserved: 0 })
  t.strictSame(await book.read(ref, id), row)
  // The first part that it reads comes through.
  proxy.setDelay(50)
  const removed = book.remove(ref, id)
  const isGone = async () => (await storageOf(redis, ref)).used === 0
  await until(isGone)
  proxy.stall()
  proxy.setDelay(0)
  await losing(removed, isGone)
  t.strictSame([...store.objects], [])
  await book.begin(ref, { id, session })
  await book.reserve(ref, { id, bytes: 7, quotaBytes })
  proxy.stall()
  const abandoned = book.abandon(ref, id)
  await losing(abandoned, async () => (await storageOf(redis, ref)).reserved === 0)
  t.strictSame(await storageOf(redis, ref), { used: 0, reserved: 0 })
})

t.test('work that is added while its account is swept always has an announcement', async (t) => {
  const { redis, ref, session, scripts, sweeper } = await openFiles(t)
  const names = [keys.session(ref, session), keys.storage(ref), keys.due(ref), keys.account(ref)]
  let isSwept = false
  const run = async (minute: string) => {
    // The connection of this process stands still after its announcement has arrived.
    await until(async () => (await redis.zcard(keys.dueAccounts)) > 0)
    if (!isSwept) await sweeper().sweep()
    isSwept = true
    return await scripts.run('begin', names, ['file_x', '0 0 0', '0', minute])
  }
  await announced(redis, { ref, dueMs: Date.now(), run })
  t.strictSame(await dueOf(redis, ref), ['upload file_x'])
  t.notOk(await isForgotten(redis, ref))
})

const rounds = Number(env.ROUNDS ?? 40)
const firstSeed = Number(env.SEED ?? Date.now() % 1_000_000)

t.test('in whatever order commands arrive, no due task is forgotten', async (t) => {
  const { redis, scripts } = await openFiles(t)
  await scripts.load()
  let removedBySweeper = 0
  for (let seed = firstSeed; seed < firstSeed + rounds; seed++) {
    const random = seeded(seed)
    const turns = new Turns(random)
    const ref = newRef()
    const session = await addSession(redis, ref)
    const store = memoryStore()
    const on = () => {
      const client = turns.actor(redis)
      const link = {
        client,
        up: true,
        isWhole: true,
        onReady: () => undefined,
        onLost: () => undefined,
      }
      rememberAnnouncements(link)
      return { ...partsOn(link), store }
    }
    const uploader = async () => {
      const book = new FileBook({ ...on(), leaseMs: random(2) * 60_000, retryMs: 0 })
      for (let count = 0; count < 3; count++) {
        const row = fileRow({ session })
        const expiresAt = random(3) === 0 ? 1 : null
        const adding = addFile({ book, store, ref }, { ...row, expiresAt })
        // A sweeper may have taken it for dead.
        const isThere = await adding.then(
          () => true,
          () => false,
        )
        if (!isThere) await book.abandon(ref, row.id)
        else if (random(2) === 0) await book.remove(ref, row.id).catch(() => undefined)
      }
    }
    const sweeping = async () => {
      const options = { everyMs: 0, takenMs: 0, onProblem: () => undefined }
      const sweeper = new Sweeper({ ...on(), ...options })
      for (let count = 0; count < 4; count++) removedBySweeper += await sweeper.sweep()
      await sweeper.close()
    }
    const all = Promise.all([uploader(), uploader(), sweeping(), sweeping()])
    await turns.play(all, async () => {
      if (await isForgotten(redis, ref)) throw new Error(`forgotten; SEED=${seed} ROUNDS=1`)
    })
  }
  t.ok(removedBySweeper > rounds, `${removedBySweeper} things were swept meanwhile`)
  t.pass(`SEED=${firstSeed} ROUNDS=${rounds}`)
})

t.test('an announcement that is repeated is still one', async (t) => {
  const { redis, ref } = await openFiles(t)
  await announce(redis, { ref, minute: 7 })
  await announce(redis, { ref, minute: 7 })
  t.strictSame(await redis.zrange(keys.dueAccounts, '0', '-1', 'WITHSCORES'), [
    `7:${ref}`,
    '420000',
  ])
})
