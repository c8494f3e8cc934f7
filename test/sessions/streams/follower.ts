// A message of another process, followed through Redis: all of it, in order, to its end, whatever that is.

import { mock } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { keys } from '../../../src/redis/keys.ts'
import { Follower } from '../../../src/sessions/streams/follower.ts'
import { Lost } from '../../../src/sessions/streams/lost.ts'
import { StreamRows } from '../../../src/sessions/streams/stream-rows.ts'
import type { MessagePlace } from '../../../src/sessions/streams/stream-rows.ts'
import { durable } from '../../fixtures/aof.ts'
import { framesOf, openStreams, rowOf, said } from '../../fixtures/stream.ts'
import type { Setup } from '../../fixtures/stream.ts'
import { until } from '../../fixtures/until.ts'

/** Rows of which some reads fail. */
class Failing extends StreamRows {
  failures = 0
  reads = 0
  /** Called between a read that brings an end and whatever follows. */
  afterEnd: (() => Promise<unknown>) | undefined

  override async frames(place: MessagePlace, from: number) {
    try {
      if (this.failures-- > 0) throw new Error('Redis is away')
      const piece = await super.frames(place, from)
      if (piece?.isEnd) await this.afterEnd?.()
      return piece
    } finally {
      this.reads++
    }
  }
}

async function follow(t: Test, { next = 0, ...setup }: Setup & { next?: number } = {}) {
  const opened = await openStreams(t, setup)
  const { redis, holds, start } = opened
  const rows = new Failing(opened.options)
  const owned = await start()
  let ends = 0
  const lost = new Lost({ redis, rows, holds })
  const follower = new Follower({
    place: owned,
    next,
    rows,
    lost,
    maxBytes: 1 << 20,
    onEnd: () => void ends++,
  })
  follower.join()
  t.teardown(() => follower.leave())
  const data = Array.from({ length: 20 }, (_, i) => said(`${i}`))
  const frames = framesOf(owned.message, data)
  const append = (first: number, next: number) =>
    rows.append(owned, { first, count: next - first, text: frames.slice(first, next).join('') })
  /** The owner is back with all frames from this one on. */
  const reclaim = (first: number) => {
    const rest = { first, count: 20 - first, text: frames.slice(first).join('') }
    return rows.finish(owned, rest, done(owned.message))
  }
  return {
    ...opened,
    rows,
    lost,
    owned,
    follower,
    frames,
    append,
    reclaim,
    get ends() {
      return ends
    },
  }
}

const done = (id: string) => JSON.stringify(rowOf({ id, status: 'completed' }))

t.test('it gives what its owner stores, to the end', async (t) => {
  const it = await follow(t)
  const { log } = it.follower
  await it.append(0, 3)
  await until(() => log.next === 3)
  await it.append(3, 4)
  await it.append(4, 19)
  await until(() => log.next === 19)
  t.equal(it.ends, 0)
  const last = { first: 19, count: 1, text: it.frames[19] ?? '' }
  await it.rows.finish(it.owned, last, done(it.owned.message))
  await until(() => log.isEnded)
  t.equal(log.from(0)?.text, it.frames.join(''))
  t.equal(log.isLost, false)
  await until(() => it.ends === 1)
})

t.test('one that begins in the middle of a batch gives the rest of it', async (t) => {
  const it = await follow(t, { next: 5 })
  await it.append(0, 9)
  await until(() => it.follower.log.next === 9)
  t.equal(it.follower.log.from(5)?.text, it.frames.slice(5, 9).join(''))
})

t.test('without readers it ends, and continues for one who joins later', async (t) => {
  const it = await follow(t)
  it.follower.leave()
  await until(() => it.ends === 1)
  await it.append(0, 3)
  it.follower.join()
  await until(() => it.follower.log.next === 3)
  t.equal(it.ends, 1)
})

t.test('an owner that is gone is noticed, and its readers get a terminal', async (t) => {
  const it = await follow(t)
  await it.append(0, 2)
  await until(() => it.follower.log.next === 2)
  await it.silence(it.owned)
  await until(() => it.follower.log.isEnded)
  t.ok(it.follower.log.isLost)
  t.match(
    it.follower.log.from(2)?.text,
    /^id: msg_\w+:2\ndata: \{"error".*upstream_incomplete.*\n\n$/,
  )
  t.match(await it.row(it.owned), { status: 'incomplete', content: '01' })
  t.equal(await it.rows.terminals.wasGiven(it.owned, 2), true, 'its readers have had this one')
})

t.test('an owner that comes back just after its end was read changes nothing here', async (t) => {
  const it = await follow(t)
  const { log } = it.follower
  await it.append(0, 2)
  await until(() => log.next === 2)
  it.rows.afterEnd = () => it.reclaim(2)
  await it.silence(it.owned)
  await until(() => log.isEnded)
  t.match(await it.row(it.owned), { status: 'completed' })
  t.match(
    log.from(0)?.text.slice(it.frames.slice(0, 2).join('').length),
    /^id: \w+:2\ndata: .*upst/,
  )
  t.equal(log.next, 3)
  t.ok(log.isLost, 'who is ahead gets a terminal too')
  t.equal(await it.rows.terminals.wasGiven(it.owned, 2), true)
})

t.test('an owner that is back before its end was read is followed to its own end', async (t) => {
  const it = await follow(t)
  const { log } = it.follower
  await it.append(0, 2)
  await until(() => log.next === 2)
  it.follower.leave()
  await until(() => it.ends === 1)
  await it.silence(it.owned)
  t.equal(await it.lost.finish(it.owned), true)
  await it.reclaim(2)
  it.follower.join()
  await until(() => log.isEnded)
  t.equal(log.from(0)?.text, it.frames.join(''))
  t.equal(log.isLost, false)
  t.equal(await it.rows.terminals.wasGiven(it.owned, 2), false)
})

t.test('an end before frames that Redis has lost cuts readers off, who then get it', async (t) => {
  const it = await follow(t)
  const { redis, ref, owned } = it
  await it.append(0, 1)
  const before = await redis.dumpBuffer(keys.stream(ref, owned.message))
  await it.append(1, 5)
  await until(() => it.follower.log.next === 5)
  await redis.restore(keys.stream(ref, owned.message), 0, before, 'REPLACE')
  await redis.xtrim(keys.frames(ref, owned.message), 'MAXLEN', 0)
  await redis.xsetid(keys.frames(ref, owned.message), '1-0')
  await it.silence(owned)
  await until(() => it.follower.log.isBroken)
  t.match(await it.rows.state(owned), { isLost: true, next: 2 })
})

t.test('an owner that is silent and alive is left alone', async (t) => {
  const it = await follow(t)
  await it.redis.hset(keys.stream(it.ref, it.owned.message), 'touched', 0)
  // Waits for two looks at the owner.
  const looks = async () => (await it.redis.info('commandstats')).match(/hmget:calls=(\d+)/)?.[1]
  const before = Number(await looks())
  await until(async () => Number(await looks()) >= before + 2)
  await it.append(0, 1)
  await until(() => it.follower.log.next === 1)
  t.notOk(it.follower.log.isEnded)
})

t.test('a message that was withdrawn cuts its readers off', async (t) => {
  const it = await follow(t)
  await it.rows.withdraw(it.owned, { ids: it.owned.rows.map(([id]) => id) })
  await until(() => it.follower.log.isBroken)
  await until(() => it.ends === 1)
})

t.test('frames that its owner could not keep cut its readers off', async (t) => {
  const it = await follow(t)
  await it.append(0, 2)
  await until(() => it.follower.log.next === 2)
  const text = it.frames[9] ?? ''
  await it.rows.append(it.owned, { first: 9, count: 1, text, said: '{}', replaces: true })
  await until(() => it.follower.log.isBroken)
})

t.test('with Redis away for a moment nothing is missing afterwards', async (t) => {
  const it = await follow(t, { args: durable })
  await it.append(0, 2)
  await until(() => it.follower.log.next === 2)
  await it.server.stop()
  await until(() => !it.link.up)
  await it.server.restart()
  await until(() => it.link.up)
  await it.append(2, 4)
  await until(() => it.follower.log.next === 4)
  t.equal(it.follower.log.from(0)?.text, it.frames.slice(0, 4).join(''))
})

t.test('only several failures in a row cut readers off', async (t) => {
  const it = await follow(t)
  const { log } = it.follower
  it.follower.leave()
  await until(() => it.ends === 1)
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  it.follower.join()
  /** Polls while the clock stands still. */
  const poll = async () => {
    const before = it.rows.reads
    mock.timers.tick(200)
    while (it.rows.reads === before && !log.isBroken) await nextTurn()
    await nextTurn()
  }
  const fail = async (times: number) => {
    it.rows.failures = times
    for (let polls = 0; polls < times; polls++) await poll()
  }
  await fail(149)
  await it.append(0, 1)
  await poll()
  t.equal(log.next, 1)
  await fail(149)
  t.notOk(log.isBroken, 'Redis answered in between')
  await fail(1)
  t.ok(log.isBroken)
  t.equal(it.ends, 2)
})
