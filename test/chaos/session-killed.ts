// A gateway that generates messages is killed, or frozen past its lease, at random moments: the reader of each message
// gets an honest end from another gateway, the message is charged for what was generated, and the session goes on.
// SEED=… repeats a run; `npm run test:long` does more.

import t from 'tap'
import type { Test } from 'tap'
import { spawnGateway } from '../fixtures/gateway.ts'
import type { OwnProcess } from '../fixtures/gateway.ts'
import { connectLink } from '../fixtures/ledger.ts'
import type { TestLink } from '../fixtures/ledger.ts'
import { differencesOf, openHold } from '../fixtures/money.ts'
import type { OpenHold } from '../fixtures/money.ts'
import { seeded } from '../fixtures/random.ts'
import type { Random } from '../fixtures/random.ts'
import { ResumingReader } from '../fixtures/resuming-reader.ts'
import { chatOf } from '../fixtures/session-chat.ts'
import type { Live } from '../fixtures/session-chat.ts'
import {
  audit,
  compare,
  goesOn,
  readOn,
  sizeOf,
  startWorld,
  talk,
} from '../fixtures/session-talk.ts'
import type { Talk, World } from '../fixtures/session-talk.ts'
import { eventually, until } from '../fixtures/until.ts'

const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
const rounds = process.env.LONG ? 25 : 3
const sessionsARound = 8
const sessionsFrozen = 4

/** Kills a gateway that has messages in all states. Resolves with how many it was generating. */
async function round(t: Test, world: World, number: number): Promise<number> {
  const { redis, yaml, witness, backend } = world
  const random = seeded(seed + number)
  const link = await connectLink(t, redis.socket)
  const victim = await spawnGateway(t, { redis, yaml })
  const talks: Talk[] = []
  for (let i = 0; i < sessionsARound; i++) {
    const parts = [random(13) / 10]
    talks.push(await talk(t, world, { name: `round ${number}, ${i}`, random, parts }))
  }
  const asked = backend.requests.length
  const opened: Live[] = []
  const onOpen = (live: Live) => void opened.push(live)
  const reading = talks.map(({ reader }) => reader.connect({ url: victim.url, onOpen }))
  await moment(random, {
    requests: () => backend.requests.length - asked,
    bytes: () => opened.reduce((sum, { bytes }) => sum + bytes.length, 0),
    most: talks.reduce((sum, { answer, holds }) => sum + sizeOf(answer, holds[0]?.before), 0),
    isCheckpointed: async () => (await heldOf(link, talks)).some(({ charged }) => charged > 0),
  })

  await victim.kill()
  await Promise.all(reading)
  const held = await heldOf(link, talks)
  for (const { holds } of talks) holds[0]?.gate.open()
  await Promise.all(
    talks.map(async (one, i) => {
      const { reader, answer } = one
      const isKnown = reader.message !== undefined
      const isSent = isKnown && random(4) === 0 && (await sendFirst(t, one))
      await readOn(one, witness)
      compare(t, reader.frames, answer)
      const { status, cost } = await audit(t, world, one)
      const checkpoint = held[i]
      if (status === 'incomplete' && checkpoint?.id) t.equal(cost, checkpoint.charged)
      if (!isSent) await goesOn(t, one)
    }),
  )
  return held.filter(({ id }) => id !== '').length
}

interface Signs {
  requests(): number
  bytes(): number
  /** The number of bytes that are sure to come. */
  readonly most: number
  isCheckpointed(): Promise<boolean>
}

/** Waits for one of: before anything has come; in the middle; when everything has come; when the ledger knows of it. */
async function moment(random: Random, signs: Signs): Promise<void> {
  const kind = random(4)
  const requests = random(sessionsARound + 1)
  const bytes = kind === 1 ? random(signs.most) : signs.most
  if (kind === 0) return until(() => signs.requests() >= requests)
  await until(() => signs.bytes() >= bytes)
  if (kind === 3) await until(signs.isCheckpointed)
}

function heldOf(link: TestLink, talks: readonly Talk[]): Promise<readonly OpenHold[]> {
  return Promise.all(talks.map(({ account }) => openHold(link, account)))
}

/** A client that sends the next message may be the first to find that the owner is gone. */
async function sendFirst(t: Test, { name, chat, session }: Talk): Promise<boolean> {
  const body = { content: `${name}, again`, stream: false }
  const answer = await eventually(async () => {
    const one = await chat.send(session, body)
    return one.status === 409 ? undefined : one
  })
  t.equal((await answer.json())['status'], 'completed')
  return true
}

t.test(`killed at random moments (SEED=${seed})`, async (t) => {
  const world = await startWorld(t, { seed })
  let killed = 0
  for (let number = 0; number < rounds; number++) {
    await t.test(`round ${number}`, async (t) => {
      const generating = await round(t, world, number)
      killed += generating
    })
  }
  t.same(await differencesOf(world.witness), [])
  t.comment(`${rounds} kills, ${killed} messages that were being generated, SEED=${seed}`)
})

t.test(`frozen past its lease (SEED=${seed})`, async (t) => {
  const world = await startWorld(t, { seed })
  const { redis, yaml, witness, backend } = world
  const random = seeded(seed)
  const link = await connectLink(t, redis.socket)
  const victim = await spawnGateway(t, { redis, yaml })
  const talks: Talk[] = []
  for (let i = 0; i < sessionsFrozen; i++) {
    const parts = [(1 + random(8)) / 10]
    talks.push(await talk(t, world, { name: `frozen ${i}`, random, parts }))
  }
  const reading = talks.map(({ reader }) => reader.connect({ url: victim.url }))
  await until(async () => (await heldOf(link, talks)).every(({ charged }) => charged > 0))
  const elsewhere = await Promise.all(
    talks.map(async (one) => {
      const { chat, session, account } = one
      const active = (await chat.read(`/${session}`))['active_message_id']
      const reader = new ResumingReader(t, { key: account.key, session, content: '' })
      reader.message = String(active)
      return { ...one, reader }
    }),
  )

  victim.child.kill('SIGSTOP')
  await Promise.all(elsewhere.map((one) => readOn(one, witness)))
  for (const one of elsewhere) compare(t, one.reader.frames, one.answer)
  // When it wakes, the backend's data of that time is there; for some messages it is all that was missing.
  for (const [i, { holds }] of talks.entries()) if (i % 2 === 0) holds[0]?.gate.open()
  victim.child.kill('SIGCONT')

  const ways = await Promise.all(reading)
  await Promise.all(backend.requests.map(({ closed }) => closed))
  for (const [i, one] of talks.entries()) {
    // It stopped while an append was on its way, and has had the rest of the answer before it could ask for more time:
    // then the answer takes the place of the other gateway's end (decision 9).
    const isWhole = i % 2 === 0 && one.reader.isEnded
    t.equal(
      ways[i],
      isWhole ? 'ended' : 'cut',
      'its own reader has all of the answer, or is cut off',
    )
    if (isWhole) compare(t, one.reader.frames, one.answer)
    await readBehind(t, { one, other: elsewhere[i] ?? one, witness })
    const { status } = await audit(t, world, one)
    t.equal(status, isWhole ? 'completed' : 'incomplete')
    await goesOn(t, { ...one, chat: chatOf(t, victim, one.account) })
  }
  t.same(await differencesOf(witness), [])
})

interface Behind {
  /** A reader with frames that only the frozen gateway had. */
  readonly one: Talk
  /** A reader that has the terminal. */
  readonly other: Talk
  readonly witness: OwnProcess
}

/** A reader whose last frame has the number of the terminal counts as one that has it: it gets 204, and the message says why. */
async function readBehind(t: Test, { one, other, witness }: Behind): Promise<void> {
  const { reader, answer } = one
  if (reader.frames.length !== other.reader.frames.length) {
    await readOn(one, witness)
    compare(t, reader.frames, answer)
  }
  t.equal(await reader.connect({ url: witness.url }), 'nothing')
}
