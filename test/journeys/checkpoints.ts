// What a checkpoint says of a stream that runs: close to the truth, because it is what the account
// pays if the gateway is killed now.

import t from 'tap'
import type { Test } from 'tap'
import { countTokens } from '../../src/tokens/count.ts'
import type { TokenCounts } from '../../src/tokens/token-counts.ts'
import { answerOf } from '../fixtures/answers.ts'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { sse } from '../fixtures/backend-scripts.ts'
import { Gate } from '../fixtures/gate.ts'
import { spawnGateway, startGateway } from '../fixtures/gateway.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { Reading, balanceOf, openHold } from '../fixtures/money.ts'
import type { OpenHold } from '../fixtures/money.ts'
import { seeded } from '../fixtures/random.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { until } from '../fixtures/until.ts'

const server = await startRedis(t)

/** Checkpoints come each 100 ms; the tokenizer takes half a second to load. */
const patienceMs = 6000
const granted = 1_000_000

interface Running {
  readonly pieces: readonly string[]
  readonly path?: string
  readonly body?: object
  /** In slices. */
  readonly slice?: number
  /** The backend reports its usage up to each piece. */
  readonly reports?: boolean
}

/** Starts a stream that has sent the pieces and goes on. Resolves with a checkpoint made after one that was right. */
async function checkpointOf(
  t: Test,
  { pieces, path = '/v1/chat', body, slice, reports = false }: Running,
  isRight: (used: TokenCounts) => boolean,
) {
  const gate = new Gate()
  const text = (i: number) => pieces[i] ?? 'the end'
  const chunks = pieces.length + 1
  const script = reports
    ? sse(['', ...pieces.map(reported), 'data: [DONE]\n\n'], { gate })
    : chat({ chunks, text, gate, usage: 'never' })
  const backend = await startBackend(t, script)
  const hold = slice ? `, hold: { mode: sliced, slice: ${slice} }` : ''
  const gateway = await startGateway(t, {
    redis: server,
    yaml: `models: { m: { targets: [{ url: '${backend.url}', continuous_usage_stats: ${reports} }], endpoints: [chat, completions] } }
plugins: { metering: { lease: 300ms${hold} } }`,
  })
  const link = await connectLink(t, server.socket)
  const account = await gateway.account(granted)
  const asked = { model: 'm', messages: [{ role: 'user', content: 'Hi' }], stream: true, ...body }
  const answer = gateway.call(path, account.key, asked)
  const last = pieces.at(-1) ?? ''
  // In a chat, the role comes before the pieces.
  gate.next(path === '/v1/chat' ? chunks : pieces.length)
  const reading = new Reading(await answer)
  await reading.until(JSON.stringify(last).slice(1, -1))
  const look = () => openHold(link, account)
  // The first ones may come before the tokenizer is loaded.
  await until(async () => isRight((await look()).used), patienceMs)
  const found = await second(look)
  gate.open()
  await reading.end()
  return found.used
}

/** The second checkpoint from now on: the first may have begun before. */
async function second(look: () => Promise<OpenHold>): Promise<OpenHold> {
  for (const _ of [1, 2]) {
    const { deadline } = await look()
    await until(async () => (await look()).deadline !== deadline)
  }
  return look()
}

const prompt_tokens = 777

/** As a server reports that has three tokens in each piece. */
function reported(content: string, i: number): string {
  const usage = { prompt_tokens, completion_tokens: 3 * (i + 1) }
  return `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }], usage })}\n\n`
}

/** About 20 code points a piece, the last one like no other. */
function piecesOf(text: string): readonly string[] {
  return [...(text.match(/[^]{1,20}/gu) ?? []), ' ~ so far.']
}

const isNear = (found: number, truth: number) => found >= 0.9 * truth && found <= 1.1 * truth

// Other languages: test/backend/generated.ts and test/tokens/count-pieces.ts.
for (const [mode, slice] of [
  ['in full', 0],
  ['in slices', 200],
] as const) {
  t.test(`held ${mode}, prompt and output are within a tenth of the truth`, async (t) => {
    const random = seeded(7)
    const pieces = piecesOf(answerOf('german', 3000, random))
    const content = answerOf('chinese', 20_000, random)
    const body = { messages: [{ role: 'user', content }] }
    const prompt = await countTokens(content)
    const output = await countTokens(pieces.join(''))
    const isRight = (used: TokenCounts) =>
      isNear(used.prompt, prompt) && isNear(used.completion, output)
    const used = await checkpointOf(t, { pieces, body, slice }, isRight)
    t.ok(isNear(used.prompt, prompt), `prompt: ${used.prompt} of ${prompt}`)
    t.ok(isNear(used.completion, output), `output: ${used.completion} of ${output}`)
  })
}

t.test('a checkpoint has no more output than was asked for', async (t) => {
  const pieces = Array.from({ length: 20 }, (_, i) => `institutionalisation ${i} of many. `)
  const isRight = ({ completion }: TokenCounts) => completion === 60
  const used = await checkpointOf(t, { pieces, body: { max_tokens: 60 } }, isRight)
  t.equal(used.completion, 60)
})

t.test('answers of best_of that are not sent count, up to what all may have', async (t) => {
  const pieces = piecesOf(answerOf('english', 600, seeded(7)))
  const sent = await countTokens(pieces.join(''))
  const path = '/v1/completions'
  for (const [max_tokens, truth] of [
    [1000, 3 * sent],
    [sent - 20, 3 * (sent - 20)],
  ] as const) {
    const body = { messages: undefined, prompt: 'Hi', best_of: 3, max_tokens }
    const isRight = ({ completion }: TokenCounts) => isNear(completion, truth)
    const { completion } = await checkpointOf(t, { pieces, path, body }, isRight)
    t.ok(isNear(completion, truth), `${completion} of ${truth}`)
    t.ok(completion <= 3 * max_tokens)
  }
})

t.test('where a backend reports with each chunk, a checkpoint has what it reports', async (t) => {
  const pieces = piecesOf(answerOf('english', 1000, seeded(7)))
  const truth = { prompt: prompt_tokens, completion: 3 * pieces.length }
  const isRight = ({ completion }: TokenCounts) => completion === truth.completion
  t.match(await checkpointOf(t, { pieces, reports: true }, isRight), truth)
})

t.test('a gateway that is killed in mid-stream costs what the stream had used', async (t) => {
  const random = seeded(7)
  const pieces = piecesOf(answerOf('chinese', 2000, random))
  const content = answerOf('german', 10_000, random)
  const gate = new Gate()
  const text = (i: number) => pieces[i] ?? 'the end'
  const script = chat({ chunks: pieces.length + 1, text, gate, usage: 'never' })
  const backend = await startBackend(t, script)
  const yaml = `models: { m: { targets: [{ url: '${backend.url}' }] } }
plugins: { metering: { lease: 300ms } }`
  const witness = await startGateway(t, { redis: server, yaml })
  const victim = await spawnGateway(t, { redis: server, yaml })
  const account = await witness.account(granted)
  const body = { model: 'm', messages: [{ role: 'user', content }], stream: true }
  const answer = victim.call('/v1/chat', account.key, body)
  gate.next(pieces.length + 1)
  const reading = new Reading(await answer)
  await reading.until('so far.')
  const link = await connectLink(t, server.socket)
  const truth = (await countTokens(content)) + (await countTokens(pieces.join('')))
  await until(async () => isNear((await openHold(link, account)).charged, truth), patienceMs)
  await victim.kill()
  await t.rejects(reading.end())
  await until(async () => (await balanceOf(witness, account)).reserved === 0)
  const { balance } = await balanceOf(witness, account)
  t.ok(isNear(granted - balance, truth), `${granted - balance} of ${truth}`)
})
