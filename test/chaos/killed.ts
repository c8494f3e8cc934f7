// A gateway that is killed or frozen in mid-stream, beside one that works: promise 6.

import t from 'tap'
import type { Test } from 'tap'
import { countText } from '../../src/tokens/count-pieces.ts'
import { startBackend } from '../fixtures/backend.ts'
import { chat, wordsBefore } from '../fixtures/backend-model.ts'
import { Gate } from '../fixtures/gate.ts'
import { spawnGateway } from '../fixtures/gateway.ts'
import { connectLink } from '../fixtures/ledger.ts'
import type { TestLink } from '../fixtures/ledger.ts'
import {
  Reading,
  ask,
  balanceOf,
  differencesOf,
  openHold,
  outputOnly,
  transactionsOf,
} from '../fixtures/money.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import type { Account } from '../fixtures/gateway.ts'
import { until } from '../fixtures/until.ts'

const leaseMs = 2000
const maxTokens = 100
const chunks = 12
const early = 5
/** What a checkpoint says of them. */
const earlyTokens = await countText(wordsBefore(early))

/** Two processes on one Redis, and a stream of the first that has sent `early` tokens and waits for the gate. */
async function midStream(t: Test) {
  const gate = new Gate()
  const backend = await startBackend(t, chat({ chunks, gate }))
  const redis = await startRedis(t)
  const yaml = [outputOnly(backend.url), `plugins: { metering: { lease: ${leaseMs}ms } }`].join(
    '\n',
  )
  const victim = await spawnGateway(t, { redis, yaml })
  const witness = await spawnGateway(t, { redis, yaml })
  const link = await connectLink(t, redis.socket)
  const account = await victim.account(1000)
  const reading = new Reading(
    await openedBy(gate, victim.call('/v1/chat', account.key, ask(maxTokens, true))),
  )
  await reading.until(`w${early - 1} `)
  return { gate, backend, redis, yaml, victim, witness, link, account, reading }
}

/** Lets the role and the first tokens pass. */
function openedBy<T>(gate: Gate, answer: Promise<T>): Promise<T> {
  gate.next(1 + early)
  return answer
}

/** Waits for a checkpoint that knows what was generated: a first one may come before the tokenizer has counted. */
async function checkpoint(link: TestLink, account: Account) {
  await until(async () => (await openHold(link, account)).charged === earlyTokens)
}

t.test(
  'the hold of a killed gateway is back within one lease, charged by its checkpoint',
  async (t) => {
    const { victim, witness, link, account, yaml, redis } = await midStream(t)
    await checkpoint(link, account)
    t.match(await balanceOf(witness, account), { balance: 1000, reserved: maxTokens })

    await victim.kill()
    const { deadline } = await openHold(link, account)
    const [seconds = 0, micros = 0] = (await link.client.time()).map(Number)
    const leftMs = deadline - (seconds * 1000 + micros / 1000)
    t.notOk(leftMs > leaseMs, 'due within one lease, if it is not back yet')
    await until(async () => (await balanceOf(witness, account)).reserved === 0)
    t.match(await balanceOf(witness, account), { balance: 1000 - earlyTokens, reserved: 0 })
    const [, ...charges] = await transactionsOf(witness, account)
    t.match(charges, [{ type: 'charge', amount: -earlyTokens, estimated: true }])
    t.equal(charges.length, 1)
    t.same(await differencesOf(witness), [])

    const heir = await spawnGateway(t, { redis, yaml, dataDir: victim.dataDir })
    t.match(await balanceOf(heir, account), { balance: 1000 - earlyTokens, reserved: 0 })
    t.same(await differencesOf(heir), [])
  },
)

t.test(
  'a gateway that was frozen past its lease is charged once, for all that it streamed',
  async (t) => {
    const { victim, witness, link, account, gate, backend, reading } = await midStream(t)
    await checkpoint(link, account)
    victim.child.kill('SIGSTOP')
    await until(async () => (await balanceOf(witness, account)).reserved === 0)
    t.equal(
      (await balanceOf(witness, account)).balance,
      1000 - earlyTokens,
      'reaped while it was frozen',
    )

    victim.child.kill('SIGCONT')
    await until(async () => (await balanceOf(witness, account)).reserved > 0)
    gate.open()
    t.match(await reading.end(), /data: \[DONE\]\n\n$/)
    t.match(await balanceOf(witness, account), { balance: 1000 - chunks, reserved: 0 })
    t.equal(backend.served.completion, chunks)
    const [, ...entries] = await transactionsOf(witness, account)
    t.same(
      entries.map(({ type, amount }) => [type, amount]),
      [
        ['charge', -earlyTokens],
        ['correction', earlyTokens - chunks],
      ],
    )
    t.equal(new Set(entries.map((one) => one.request_id)).size, 1, 'of one request')
    t.same(await differencesOf(witness), [])
  },
)

t.test('a frozen gateway whose money was spent meanwhile ends its stream by length', async (t) => {
  const { victim, witness, link, account, gate, backend, reading } = await midStream(t)
  await checkpoint(link, account)
  victim.child.kill('SIGSTOP')
  await until(async () => (await balanceOf(witness, account)).reserved === 0)
  const spent = { amount: earlyTokens - 1000, note: 'spent elsewhere' }
  t.equal((await witness.admin('POST', `accounts/${account.id}/adjust`, spent)).status, 200)
  t.equal((await balanceOf(witness, account)).available, 0)

  victim.child.kill('SIGCONT')
  const text = await reading.end()
  t.match(text, /"finish_reason":"length"\}\]\}\n\ndata: \[DONE\]\n\n$/)
  gate.open()
  t.match(await balanceOf(witness, account), { balance: 0, reserved: 0 })
  t.ok(backend.served.completion < chunks, 'the backend was stopped')
  t.same(await differencesOf(witness), [])
})
