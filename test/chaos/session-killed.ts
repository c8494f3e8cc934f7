// A gateway that generates messages is killed, or frozen past its lease, at random moments: each message has an honest end
// that its reader gets from another gateway, it is charged for what was generated, and the session goes on.
// SEED=… repeats a run; `npm run test:long` makes more of it.

import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import type { Backend } from '../fixtures/backend.ts'
import { Gate } from '../fixtures/gate.ts'
import { spawnGateway } from '../fixtures/gateway.ts'
import type { Account, OwnProcess } from '../fixtures/gateway.ts'
import type { Transaction } from '../../src/ledger/journal.ts'
import { connectLink } from '../fixtures/ledger.ts'
import type { TestLink } from '../fixtures/ledger.ts'
import { balanceOf, differencesOf, openHold, transactionsOf } from '../fixtures/money.ts'
import type { OpenHold } from '../fixtures/money.ts'
import { seeded } from '../fixtures/random.ts'
import type { Random } from '../fixtures/random.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import type { RedisServer } from '../fixtures/redis-server.ts'
import { ResumingReader } from '../fixtures/resuming-reader.ts'
import { chatOf, chatYaml } from '../fixtures/session-chat.ts'
import type { Live, Message } from '../fixtures/session-chat.ts'
import type { Frame } from '../fixtures/sse-grammar.ts'
import { eventually, until } from '../fixtures/until.ts'
import { varied, variedAnswer } from '../fixtures/varied-answer.ts'
import type { Playing, VariedAnswer } from '../fixtures/varied-answer.ts'

const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
const rounds = process.env.LONG ? 25 : 3
const sessionsARound = 8
const sessionsFrozen = 4
const leaseMs = 2000
/** A reader looks after a silent owner once a second; and the machine may be busy with other tests. */
const slackMs = 3000
const granted = 1_000_000

interface World {
  readonly backend: Backend
  readonly redis: RedisServer
  readonly yaml: string
  readonly witness: OwnProcess
  readonly plays: Map<string, Playing>
}

async function start(t: Test): Promise<World> {
  const plays = new Map<string, Playing>()
  const backend = await startBackend(t, varied(plays, seeded(seed)))
  const redis = await startRedis(t)
  const model = 'price: { input: 0, output: 1 }, max_output_tokens: 100000, context_window: 900000'
  const plugins = `plugins: { metering: { lease: ${leaseMs}ms } }`
  const yaml = chatYaml(backend.url, { model, yaml: plugins })
  return { backend, redis, yaml, plays, witness: await spawnGateway(t, { redis, yaml }) }
}

interface Talk {
  readonly name: string
  readonly answer: VariedAnswer
  /** Blocks before this one go out at once. */
  readonly heldAt: number
  readonly gate: Gate
  readonly account: Account
  readonly chat: ReturnType<typeof chatOf>
  readonly session: string
  readonly reader: ResumingReader
}

async function talk(
  t: Test,
  { plays, witness }: World,
  { name, random, part = random(13) / 10 }: { name: string; random: Random; part?: number },
): Promise<Talk> {
  const answer = variedAnswer(random, 20 + random(150))
  const gate = new Gate()
  const heldAt = Math.floor(part * answer.blocks.length)
  plays.set(name, { answer, heldAt, gate })
  plays.set(`${name}, again`, { answer: variedAnswer(random, 3) })
  const account = await witness.account(granted)
  const chat = chatOf(t, witness, account)
  const session = await chat.session()
  const reader = new ResumingReader(t, { key: account.key, session, content: name })
  return { name, answer, heldAt, gate, account, chat, session, reader }
}

/** Reads on at a gateway until the end. */
async function readOn({ reader }: Talk, { url }: OwnProcess): Promise<void> {
  await until(async () => {
    if (reader.isEnded) return true
    const how = await reader.connect({ url })
    if (how === 'nothing') throw new Error('nothing follows, and no terminal has come')
    return false
  })
}

/** Of what clients get of the first blocks, at least. */
function sizeOf({ events }: VariedAnswer, count: number): number {
  return events.slice(0, count).reduce((sum, { data }) => sum + data.length, 0)
}

/** What was read is what the backend sent, up to the terminal. */
function compare(t: Test, frames: readonly Frame[], { events }: VariedAnswer): void {
  const isWhole = frames.at(-1)?.kind === 'done'
  const said = isWhole ? frames : frames.slice(0, -1)
  const differs = said.findIndex(
    ({ seq, event, data }, i) =>
      seq !== i || events[i]?.event !== event || events[i]?.data !== data,
  )
  t.equal(differs, -1, 'it is what was sent')
  if (isWhole) t.equal(frames.length, events.length)
  else t.match(frames.at(-1), { kind: 'error', data: /"code":"upstream_incomplete"/ })
}

/** The message is what its frames say, and the money what the message says. */
async function audit(t: Test, { witness }: World, talk: Talk): Promise<Message> {
  const { chat, session, reader, answer, account } = talk
  const copy = new ResumingReader(t, { key: account.key, session, content: '' })
  copy.message = reader.message
  t.equal(await copy.connect({ url: witness.url }), 'ended')
  compare(t, copy.frames, answer)
  const isWhole = copy.frames.at(-1)?.kind === 'done'
  const count = copy.frames.length - 1
  const said = answer.events.slice(0, count).map(({ content }) => content)
  const message = await chat.message(session, reader.message ?? '')
  t.equal(message.content ?? '', said.join(''), 'the text is what the frames say')
  t.equal(message.status, isWhole ? 'completed' : 'incomplete')
  t.equal(message.error?.['code'], isWhole ? undefined : 'upstream_incomplete')
  t.equal(await copy.connect({ url: witness.url }), 'nothing', 'behind the terminal is nothing')

  await until(async () => (await balanceOf(witness, account)).reserved === 0)
  const charges = (await transactionsOf(witness, account)).slice(1)
  const { balance } = await balanceOf(witness, account)
  t.equal(granted - balance, sumOf(charges), 'the journal adds up')
  const own = charges.filter(({ message_id }) => message_id === message.id)
  t.ok(new Set(own.map(({ request_id }) => request_id)).size <= 1, 'charged once')
  if (isWhole) t.equal(sumOf(own), answer.completion)
  else t.ok(sumOf(own) >= 0 && sumOf(own) <= bytesOf(answer), 'no more than was generated')
  return message
}

/** A token has a byte at least. */
function bytesOf({ content, completion }: VariedAnswer): number {
  return Math.max(Buffer.byteLength(content), completion)
}

/** What they took away. */
function sumOf(entries: readonly Transaction[]): number {
  return entries.reduce((sum, { amount }) => sum - amount, 0)
}

async function goesOn(t: Test, { name, chat, session }: Talk): Promise<void> {
  const again = await chat.send(session, { content: `${name}, again`, stream: false })
  t.equal((await again.json())['status'], 'completed', 'the session goes on')
}

/** One gateway with several messages in all states, killed. Resolves with how many it was generating. */
async function round(t: Test, world: World, number: number): Promise<number> {
  const { redis, yaml, witness, backend } = world
  const random = seeded(seed + number)
  const link = await connectLink(t, redis.socket)
  const victim = await spawnGateway(t, { redis, yaml })
  const talks: Talk[] = []
  for (let i = 0; i < sessionsARound; i++) {
    talks.push(await talk(t, world, { name: `round ${number}, ${i}`, random }))
  }
  const asked = backend.requests.length
  const opened: Live[] = []
  const onOpen = (live: Live) => void opened.push(live)
  const reading = talks.map(({ reader }) => reader.connect({ url: victim.url, onOpen }))
  await moment(random, {
    requests: () => backend.requests.length - asked,
    bytes: () => opened.reduce((sum, { bytes }) => sum + bytes.length, 0),
    most: talks.reduce((sum, { answer, heldAt }) => sum + sizeOf(answer, heldAt), 0),
    isCheckpointed: async () => (await heldOf(link, talks)).some(({ charged }) => charged > 0),
  })

  await victim.kill()
  const killedAt = performance.now()
  await Promise.all(reading)
  const held = await heldOf(link, talks)
  for (const { gate } of talks) gate.open()
  await Promise.all(
    talks.map(async (one, i) => {
      const { reader, answer, name } = one
      const isKnown = reader.message !== undefined
      const isSent = isKnown && random(4) === 0 && (await sendFirst(t, one))
      await readOn(one, witness)
      const tookMs = performance.now() - killedAt
      if (isKnown) t.ok(tookMs < leaseMs + slackMs, `${name} ended after ${Math.round(tookMs)} ms`)
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
  /** Bytes that are sure to come. */
  readonly most: number
  isCheckpointed(): Promise<boolean>
}

/** Before anything has come, in the middle, when all has come that will, or when the ledger knows of it. */
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

/** Who sends on may be the first to find that the owner is gone. */
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
  const world = await start(t)
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
  const world = await start(t)
  const { redis, yaml, witness, backend } = world
  const random = seeded(seed)
  const link = await connectLink(t, redis.socket)
  const victim = await spawnGateway(t, { redis, yaml })
  const talks: Talk[] = []
  for (let i = 0; i < sessionsFrozen; i++) {
    talks.push(await talk(t, world, { name: `frozen ${i}`, random, part: (1 + random(8)) / 10 }))
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
  const frozenAt = performance.now()
  await Promise.all(elsewhere.map((one) => readOn(one, witness)))
  t.ok(performance.now() - frozenAt < leaseMs + slackMs, 'others have the end within a lease')
  for (const one of elsewhere) compare(t, one.reader.frames, one.answer)
  // What it slept through is there when it wakes, to some of its messages all that was missing.
  for (const [i, { gate }] of talks.entries()) if (i % 2 === 0) gate.open()
  victim.child.kill('SIGCONT')

  t.strictSame([...new Set(await Promise.all(reading))], ['cut'], 'its own readers are cut off')
  await Promise.all(backend.requests.map(({ closed }) => closed))
  for (const one of talks) {
    t.notOk(one.reader.isEnded)
    await readOn(one, witness)
    compare(t, one.reader.frames, one.answer)
    const { status } = await audit(t, world, one)
    t.equal(status, 'incomplete')
    t.equal(await one.reader.connect({ url: witness.url }), 'nothing')
    await goesOn(t, { ...one, chat: chatOf(t, victim, one.account) })
  }
  t.same(await differencesOf(witness), [])
})
