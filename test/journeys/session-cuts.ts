// A chat over a bad network: two gateways on one Redis, connections that are cut at any byte, a reader that resumes at
// either gateway. In total it gets what the backend sent. SEED=… repeats a run; `npm run test:long` does more.

import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { startCuttingProxy } from '../fixtures/cutting-proxy.ts'
import { Gate } from '../fixtures/gate.ts'
import { spawnGateway } from '../fixtures/gateway.ts'
import type { OwnProcess } from '../fixtures/gateway.ts'
import { balanceOf, differencesOf, transactionsOf } from '../fixtures/money.ts'
import { seeded } from '../fixtures/random.ts'
import type { Random } from '../fixtures/random.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { ResumingReader } from '../fixtures/resuming-reader.ts'
import type { Asking } from '../fixtures/resuming-reader.ts'
import { chatOf, chatYaml } from '../fixtures/session-chat.ts'
import { compare, sizeOf } from '../fixtures/session-talk.ts'
import { varied, variedAnswer } from '../fixtures/varied-answer.ts'
import type { Playing } from '../fixtures/varied-answer.ts'

const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
const journeys = process.env.LONG ? 200 : 20
const atOnce = 4
const granted = 1_000_000
/** The length of the reply to a second send. */
const shortEvents = 3

interface World {
  readonly gateways: readonly [OwnProcess, OwnProcess]
  readonly plays: Map<string, Playing>
}

async function start(t: Test): Promise<World> {
  const plays = new Map<string, Playing>()
  const backend = await startBackend(t, varied(plays, seeded(seed)))
  const redis = await startRedis(t)
  const model = 'price: { input: 0, output: 1 }, max_output_tokens: 100000, context_window: 900000'
  const yaml = chatYaml(backend.url, { model, yaml: 'limits: { heartbeat: 50ms }' })
  const gateways = await Promise.all([
    spawnGateway(t, { redis, yaml }),
    spawnGateway(t, { redis, yaml }),
  ])
  return { gateways, plays }
}

/** One message, cut again and again while it is generated, and read to its end. */
async function journey(t: Test, { gateways, plays }: World, number: number): Promise<number> {
  const random = seeded(seed + number)
  const name = `journey ${number}`
  const answer = variedAnswer(random, 150 + random(300))
  const gate = new Gate()
  const heldAt = Math.floor(answer.blocks.length * 0.8)
  plays.set(name, { answer, holds: [{ before: heldAt, gate }] })
  plays.set(`${name}, again`, { answer: variedAnswer(random, shortEvents) })
  const [first] = gateways
  const account = await first.account(granted)
  const chat = chatOf(t, first, account)
  const session = await chat.session()
  const reader = new ResumingReader(t, { key: account.key, session, content: name })
  const proxies = [
    await startCuttingProxy(t, gateways[0].url),
    await startCuttingProxy(t, gateways[1].url),
  ] as const

  const cuts = 2 + random(4)
  // All cuts together are shorter than what the backend sends before it waits, so each of them meets a running stream.
  const mostBytes = Math.floor(sizeOf(answer, heldAt) / (cuts + 1))
  for (let cut = 0; cut < cuts; cut++) {
    const proxy = pick(proxies, cut < 3 ? cut % 2 : random(2))
    const afterBytes = 1 + random(random(4) === 0 ? Math.min(900, mostBytes) : mostBytes)
    proxy.setCut({ afterBytes, how: random(2) === 0 ? 'fin' : 'reset' })
    t.equal(await reader.connect({ url: proxy.url, ...by(random) }), 'cut')
  }
  const last = pick(proxies, cuts === 2 ? 0 : random(2))
  last.setCut(undefined)
  const end = await reader.connect({ url: last.url, ...by(random), onOpen: () => gate.open() })
  t.equal(end, 'ended')
  compare(t, reader.frames, answer)
  t.equal(reader.frames.at(-1)?.kind, 'done')
  t.equal(proxies[0].cuts + proxies[1].cuts, cuts)

  const message = await chat.message(session, reader.message ?? '', pick(gateways, random(2)))
  const { content, status, cost } = message
  t.strictSame([content === answer.content, status, cost], [true, 'completed', answer.completion])
  t.match(await balanceOf(first, account), { balance: granted - answer.completion, reserved: 0 })
  const [, ...charges] = await transactionsOf(first, account)
  t.strictSame(
    charges.map(({ amount, message_id }) => [amount, message_id]),
    [[-answer.completion, message.id]],
    'charged once',
  )
  const again = { content: `${name}, again`, stream: false }
  const next = await (await chat.send(session, again, {}, pick(gateways, random(2)))).json()
  t.equal(next['status'], 'completed')
  return cuts
}

const pick = <T>(two: readonly [T, T], at: number): T => (at === 0 ? two[0] : two[1])

function by(random: Random): Pick<Asking, 'by'> {
  return { by: (['header', 'query', 'post'] as const)[random(3)] ?? 'header' }
}

t.test(`cut at random bytes, resumed at either of two gateways (SEED=${seed})`, async (t) => {
  const world = await start(t)
  t.jobs = atOnce
  let cuts = 0
  const all = Array.from({ length: journeys }, (_, number) =>
    t.test(`journey ${number}`, async (t) => {
      const made = await journey(t, world, number)
      cuts += made
    }),
  )
  await Promise.all(all)
  t.same(await differencesOf(world.gateways[0]), [])
  t.comment(`${journeys} messages, ${cuts} cuts, SEED=${seed}`)
})
