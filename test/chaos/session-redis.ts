// Redis is away, or forgets, while messages are generated: readers at the owning gateway notice nothing, and afterwards
// the message is complete in Redis, or honestly incomplete, and charged once. SEED=… repeats a run.

import t from 'tap'
import type { Test } from 'tap'
import { keys } from '../../src/redis/keys.ts'
import { cutOff, durable } from '../fixtures/aof.ts'
import { spawnGateway } from '../fixtures/gateway.ts'
import type { OwnProcess } from '../fixtures/gateway.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { differencesOf, refOf } from '../fixtures/money.ts'
import { seeded } from '../fixtures/random.ts'
import { ResumingReader } from '../fixtures/resuming-reader.ts'
import type { HowItWent } from '../fixtures/resuming-reader.ts'
import { messageIdOf, refusal } from '../fixtures/session-chat.ts'
import type { Live } from '../fixtures/session-chat.ts'
import {
  audit,
  compare,
  goesOn,
  leaseMs,
  readOn,
  startWorld,
  talk,
} from '../fixtures/session-talk.ts'
import type { Talk, Telling, World } from '../fixtures/session-talk.ts'
import { until } from '../fixtures/until.ts'

const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
const name = 'the message'

interface Scene {
  readonly world: World
  readonly owner: OwnProcess
  readonly one: Talk
  /** The owner's answer, with everything that the backend sent before its first hold. */
  readonly live: Live
  readonly reading: Promise<HowItWent>
}

type Lengths = Pick<Telling, 'events' | 'mostWords'>

/** Fewer events than its owner keeps in memory after they are stored. */
const few: Lengths = { events: 50, mostWords: 10 }

/** A message that waits at the first of its holds. */
async function midAnswer(t: Test, parts: readonly number[], lengths: Lengths = {}): Promise<Scene> {
  const world = await startWorld(t, { seed, args: durable })
  const { redis, yaml } = world
  const owner = await spawnGateway(t, { redis, yaml })
  const one = await talk(t, world, { name, random: seeded(seed), parts, ...lengths })
  const opened = Promise.withResolvers<Live>()
  const reading = one.reader.connect({ url: owner.url, onOpen: opened.resolve })
  const live = await opened.promise
  const scene = { world, owner, one, live, reading }
  await upTo(scene, 0)
  return scene
}

/** Waits until the reader has all frames before this hold. */
async function upTo({ one, live }: Scene, hold: number): Promise<void> {
  const last = (one.holds[hold]?.before ?? 0) - 1
  await live.until(`\nid: ${messageIdOf(live)}:${last}\n`)
}

/** A reader at another gateway, from the start of the stream. */
function another(t: Test, { one, live }: Scene): Talk {
  const { account, session } = one
  const reader = new ResumingReader(t, { key: account.key, session, content: '' })
  reader.message = messageIdOf(live)
  return { ...one, reader }
}

async function isBack({ one, live }: Scene): Promise<void> {
  const path = `/${one.session}/messages/${messageIdOf(live)}`
  await until(async () => (await one.chat.at(path)).status === 200)
}

/** All readers got the whole answer, the message is complete, and the session goes on. */
async function isWhole(t: Test, { world, one }: Scene, talks: readonly Talk[]): Promise<void> {
  for (const { reader } of talks) {
    compare(t, reader.frames, one.answer)
    t.equal(reader.frames.at(-1)?.kind, 'done')
  }
  t.equal((await audit(t, world, one)).status, 'completed')
  await goesOn(t, one)
}

t.test(`Redis is away in the middle of an answer (SEED=${seed})`, async (t) => {
  const scene = await midAnswer(t, [0.3, 0.6])
  const { world, one, reading, live } = scene
  await world.redis.kill()
  one.holds[0]?.gate.open()
  await upTo(scene, 1)
  t.pass('its reader gets what is generated meanwhile')
  const path = `/${one.session}/messages/${messageIdOf(live)}/stream`
  t.strictSame(await refusal(await one.chat.at(path)), [503, 'ledger_unavailable'])

  await world.redis.restart()
  await isBack(scene)
  const other = another(t, scene)
  const elsewhere = readOn(other, world.witness)
  one.holds[1]?.gate.open()
  t.equal(await reading, 'ended')
  await elsewhere
  await isWhole(t, scene, [one, other])
  t.same(await differencesOf(world.witness), [])
})

t.test(`Redis is away at the end of an answer (SEED=${seed})`, async (t) => {
  const scene = await midAnswer(t, [0.5])
  const { world, one, reading } = scene
  await world.redis.kill()
  one.holds[0]?.gate.open()
  t.equal(await reading, 'ended')
  compare(t, one.reader.frames, one.answer)
  t.equal(one.reader.frames.at(-1)?.kind, 'done', 'its reader gets the end')

  await world.redis.restart()
  await isBack(scene)
  const other = another(t, scene)
  await readOn(other, world.witness)
  await isWhole(t, scene, [other])
  t.same(await differencesOf(world.witness), [])
})

t.test(`Redis comes back without the last frames that it had (SEED=${seed})`, async (t) => {
  const scene = await midAnswer(t, [0.2, 0.4, 0.6], few)
  const { world, one, reading, live } = scene
  const { redis } = world
  const link = await connectLink(t, redis.socket)
  const frames = keys.frames(refOf(one.account), messageIdOf(live))
  for (const [i, { gate }] of one.holds.entries()) {
    await until(async () => (await link.client.xlen(frames)) > i)
    if (i < 2) gate.open()
  }
  await redis.kill()
  t.ok(await cutOff(redis.dir, 1 + seeded(seed)(6)))
  await redis.restart()
  await isBack(scene)
  const other = another(t, scene)
  const elsewhere = readOn(other, world.witness)
  one.holds[2]?.gate.open()
  t.equal(await reading, 'ended')
  await elsewhere
  await isWhole(t, scene, [one, other])
})

t.test(`the owner dies while Redis is away (SEED=${seed})`, async (t) => {
  const scene = await midAnswer(t, [0.3, 0.6])
  const { world, owner, one, reading } = scene
  await world.redis.kill()
  one.holds[0]?.gate.open()
  await upTo(scene, 1)
  await owner.kill()
  t.equal(await reading, 'cut')
  const seen = one.reader.frames.length

  await world.redis.restart()
  await isBack(scene)
  await readOn(one, world.witness)
  compare(t, one.reader.frames, one.answer)
  t.equal(one.reader.frames.length, seen + 1, 'the terminal alone')
  t.equal((await audit(t, world, one)).status, 'incomplete')
  await goesOn(t, one)
  t.same(await differencesOf(world.witness), [])
})

t.test(`Redis stands still for longer than a lease (SEED=${seed})`, async (t) => {
  const scene = await midAnswer(t, [0.3, 0.6])
  const { world, one, reading } = scene
  const other = another(t, scene)
  const elsewhere = readOn(other, world.witness)
  const stoppedAt = performance.now()
  process.kill(world.redis.pid, 'SIGSTOP')
  one.holds[0]?.gate.open()
  await upTo(scene, 1)
  t.pass('its reader gets what is generated meanwhile')
  await until(() => performance.now() > stoppedAt + 1.25 * leaseMs)
  process.kill(world.redis.pid, 'SIGCONT')
  one.holds[1]?.gate.open()
  await reading
  await readOn(one, world.witness)
  await elsewhere
  for (const { reader } of [one, other]) compare(t, reader.frames, one.answer)
  const { status } = await audit(t, world, one)
  t.comment(status)
  await goesOn(t, one)
  t.same(await differencesOf(world.witness), [])
})
