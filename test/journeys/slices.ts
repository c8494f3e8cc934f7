// Holds in slices (`metering.hold.mode: sliced`): streams share a modest balance to its last token.

import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import type { Script } from '../fixtures/backend.ts'
import { chat, endless } from '../fixtures/backend-model.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { connectLink } from '../fixtures/ledger.ts'
import type { TestLink } from '../fixtures/ledger.ts'
import { Reading, ask, balanceOf, chargesOf, differencesOf } from '../fixtures/money.ts'
import { until } from '../fixtures/until.ts'

const streams = 10
const wanted = 4096
const balance = 5000
/** Of admission and settlement, as before there were slices, and of a reading of the balance, which reads a key's budget. */
const fullCommands = 24

const metering = (more = '') => `plugins: { metering: { hold: { mode: sliced ${more} } } }`

async function start(t: Test, script: Script, { price = 'input: 1, output: 1', more = '' } = {}) {
  const backend = await startBackend(t, script)
  const models = `models: { m: { targets: [{ url: '${backend.url}' }], on_leave: abort, price: { ${price} } } }`
  const gateway = await startGateway(t, { yaml: [models, metering(more)].join('\n') })
  return { backend, gateway }
}

const words = (text: string) => text.split('"content":" a"').length - 1

t.test('ten streams share 5,000 tokens to the last one', async (t) => {
  const script = chat({ chunks: wanted, text: () => ' a' })
  const { backend, gateway } = await start(t, script, { more: ', slice: 64' })
  const account = await gateway.account(balance)
  const answers = await Promise.all(
    Array.from({ length: streams }, () => gateway.call('/v1/chat', account.key, ask(wanted, true))),
  )
  t.same(
    answers.map(({ status }) => status),
    answers.map(() => 200),
  )
  const texts = await Promise.all(answers.map((answer) => answer.text()))
  for (const text of texts) t.match(text, /"finish_reason":"length".*\n\ndata: \[DONE\]\n\n$/)
  const bounds = backend.requests.map(({ body }) => JSON.parse(body.toString()) as object)
  t.ok(bounds.every((body) => 'max_tokens' in body && body.max_tokens === wanted))
  const charges = await chargesOf(gateway, account)
  t.equal(charges.length, streams)
  t.ok(charges.every(({ cut }) => cut === true))
  const sum = charges.reduce((all, { amount }) => all - amount, 0)
  t.equal(sum, balance)
  const prompts = charges.reduce((all, { usage }) => all + (usage?.prompt_tokens ?? 0), 0)
  const delivered = texts.reduce((all, text) => all + words(text), 0)
  t.equal(delivered + prompts, balance, 'each token that the account can afford is delivered')
  t.match(await balanceOf(gateway, account), { balance: 0, reserved: 0, owed: 0 })
  t.same(await differencesOf(gateway), [])
})

/** How many commands Redis carried out, those of scripts included, and how many scripts. */
async function commands({ client }: TestLink) {
  const stats = await client.info('commandstats')
  let [all, scripts] = [0, 0]
  for (const [, name = '', calls] of stats.matchAll(/^cmdstat_(\S+?):calls=(\d+)/gm)) {
    if (name === 'evalsha') scripts += Number(calls)
    if (!/^(info|ping|client|hello|config)/.test(name)) all += Number(calls)
  }
  return { all, scripts }
}

/** The fewest commands of several streams: a checkpoint may fall into one of them. */
async function costOf(t: Test, { mode, tokens }: { mode: string; tokens: number }) {
  const backend = await startBackend(t, chat({ chunks: tokens, text: () => ' a' }))
  const models = `models: { m: { targets: [{ url: '${backend.url}' }] } }`
  const hold = `plugins: { metering: { hold: { mode: ${mode}, slice: 200 } } }`
  const gateway = await startGateway(t, { yaml: [models, hold].join('\n') })
  const link = await connectLink(t, gateway.redis.socket)
  const account = await gateway.account(1_000_000)
  const costs: { all: number; scripts: number }[] = []
  for (let i = 0; i < 6; i++) {
    const before = await commands(link)
    await (await gateway.call('/v1/chat', account.key, ask(tokens, true))).text()
    await until(async () => (await balanceOf(gateway, account)).reserved === 0)
    const after = await commands(link)
    costs.push({ all: after.all - before.all, scripts: after.scripts - before.scripts })
  }
  // The first stream also marks the key as used, and begins the sums of its hour.
  const later = costs.slice(1)
  // One script is the reading of the balance.
  return {
    all: Math.min(...later.map(({ all }) => all)),
    scripts: Math.min(...later.map(({ scripts }) => scripts)) - 1,
  }
}

t.test(
  'in full, a stream costs what it did: two scripts; in slices one more each half',
  async (t) => {
    const full = await costOf(t, { mode: 'full', tokens: 1000 })
    t.equal(full.scripts, 2)
    const short = await costOf(t, { mode: 'sliced', tokens: 150 })
    t.equal(short.scripts, 2, 'a stream that one slice holds needs no extension')
    t.equal(short.all, full.all)
    const long = await costOf(t, { mode: 'sliced', tokens: 1000 })
    t.ok(long.scripts > 2 && long.scripts <= 2 + 12, `${long.scripts} scripts`)
    t.equal(full.all, fullCommands)
  },
)

t.test('a message of a session ends by length when the money is gone', async (t) => {
  const script = chat({ chunks: wanted, text: () => ' a' })
  const { gateway } = await start(t, script)
  const account = await gateway.account(400)
  const made = await gateway.call('/api/chat/sessions', account.key, { model: 'm' })
  const { id } = (await made.json()) as { id: string }
  const said = { content: 'Hi', stream: true, max_tokens: wanted }
  const sent = await gateway.call(`/api/chat/sessions/${id}/messages`, account.key, said)
  t.equal(sent.status, 200)
  t.match(await sent.text(), /"finish_reason":"length".*\n\n(.*\n)?data: \[DONE\]\n\n$/)
  const charges = await chargesOf(gateway, account)
  t.match(charges, [{ amount: -400, cut: true, session_id: id }])
  t.match(await balanceOf(gateway, account), { balance: 0, reserved: 0, owed: 0 })
})

t.test('a client that leaves pays for all that came, and the rest is free again', async (t) => {
  const { backend, gateway } = await start(t, endless(), { more: ', slice: 64' })
  const account = await gateway.account(100_000)
  const client = new AbortController()
  const answer = await gateway.call('/v1/chat', account.key, ask(wanted, true), client.signal)
  const reading = new Reading(answer)
  await reading.until('w500 ')
  client.abort()
  await backend.requests[0]?.closed
  await until(async () => (await balanceOf(gateway, account)).reserved === 0)
  const charges = await chargesOf(gateway, account)
  t.ok((charges[0]?.usage?.completion_tokens ?? 0) >= 500)
  t.same(await differencesOf(gateway), [])
})

t.test('a balance that has less than a prompt and the least output is refused', async (t) => {
  const { backend, gateway } = await start(t, chat(), { price: 'input: 0, output: 1' })
  const account = await gateway.account(15)
  t.equal((await gateway.call('/v1/chat', account.key, ask(wanted, true))).status, 402)
  t.equal(backend.requests.length, 0)
})

t.test('what is not streamed holds in full', async (t) => {
  const { backend, gateway } = await start(t, chat({ chunks: 9 }), { price: 'input: 0, output: 1' })
  const account = await gateway.account(600)
  await (await gateway.call('/v1/chat', account.key, ask(wanted, false))).text()
  const [{ body } = { body: Buffer.from('{}') }] = backend.requests
  t.match(JSON.parse(body.toString()), { max_tokens: 600 })
})

t.test('of many events in one packet, those that are paid for go out', async (t) => {
  const event = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: ' a' } }] })}\n\n`
  const burst: Script = async ({ res }) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.end(event.repeat(400))
  }
  const { gateway } = await start(t, burst, { price: 'input: 0, output: 1', more: ', slice: 64' })
  const account = await gateway.account(150)
  const text = await (await gateway.call('/v1/chat', account.key, ask(wanted, true))).text()
  t.equal(words(text), 150)
  t.match(text, /"finish_reason":"length".*\n\ndata: \[DONE\]\n\n$/)
  t.match(await balanceOf(gateway, account), { balance: 0, reserved: 0, owed: 0 })
})
