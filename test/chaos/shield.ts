// A customer who locks the balance with holds that are charged little, and meanwhile runs requests that cost more than
// their hold: what was used is owed, over two gateways of which one is killed. Promise 4.

import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import type { Script } from '../fixtures/backend.ts'
import { json } from '../fixtures/backend-scripts.ts'
import { Gate } from '../fixtures/gate.ts'
import { spawnGateway } from '../fixtures/gateway.ts'
import type { Account, TestGateway } from '../fixtures/gateway.ts'
import { Reading, balanceOf, differencesOf, transactionsOf } from '../fixtures/money.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { until } from '../fixtures/until.ts'

const granted = 20_000
const leaseMs = 2000
/** Prompt tokens of a dense text: one for each byte, while the estimate has one for 2.5. */
const dense = 2000

/** `lock`: one token, then nothing until its reader leaves. Otherwise a whole answer that reports the full prompt. */
function model(gate: Gate): Script {
  return async (call) => {
    const text = JSON.stringify(call.json['messages'])
    if (text.includes('lock')) {
      call.res.writeHead(200, { 'content-type': 'text/event-stream' })
      const choice = { index: 0, delta: { content: 'w' }, finish_reason: null }
      call.res.write(`data: ${JSON.stringify({ choices: [choice] })}\n\n`)
      return
    }
    await gate.wait()
    call.served.prompt += dense
    const message = { role: 'assistant', content: '' }
    const usage = { prompt_tokens: dense, completion_tokens: 0, total_tokens: dense }
    await json({ choices: [{ index: 0, message, finish_reason: 'stop' }], usage })(call)
  }
}

const costly = {
  model: 'm',
  max_tokens: 16,
  messages: [{ role: 'user', content: 'x'.repeat(dense) }],
}
const free = { ...costly, model: 'free' }
const lock = (max_tokens: number) => ({
  model: 'm',
  max_tokens,
  stream: true,
  messages: [{ role: 'user', content: 'lock' }],
})

async function arrange(t: Test) {
  const gate = new Gate()
  const backend = await startBackend(t, model(gate))
  const redis = await startRedis(t)
  const yaml = `
models:
  m: { targets: [{ url: '${backend.url}' }], max_output_tokens: 50000 }
  free: { targets: [{ url: '${backend.url}' }], price: { input: 0, output: 0 } }
plugins: { metering: { lease: ${leaseMs}ms } }
log: { level: error }`
  const victim = await spawnGateway(t, { redis, yaml })
  const witness = await spawnGateway(t, { redis, yaml })
  const account = await victim.account(granted)
  return { gate, backend, redis, yaml, victim, witness, account }
}

/** Sends this many requests at once, in turn to the gateways; resolves with their answers when the backend has released them. */
async function run(
  { gate, backend }: { gate: Gate; backend: { readonly requests: readonly unknown[] } },
  { gates, account, count }: { gates: readonly TestGateway[]; account: Account; count: number },
) {
  const asked = backend.requests.length
  const answers = Promise.all(
    Array.from({ length: count }, async (_, i) => {
      const answer = await gates[i % gates.length]?.call('/v1/chat', account.key, costly)
      await answer?.arrayBuffer()
      return answer?.status
    }),
  )
  await until(() => backend.requests.length === asked + count)
  gate.next(count)
  return answers
}

async function refusal(gate: TestGateway, { key }: Account) {
  const answer = await gate.call('/v1/chat', key, costly)
  return { status: answer.status, ...((await answer.json()) as { error: Record<string, unknown> }) }
}

const sums = async (gate: TestGateway, account: Account) => {
  const rows = await transactionsOf(gate, account)
  const charges = rows.filter(({ type }) => type === 'charge' || type === 'adjustment')
  const total = (numbers: readonly number[]) => numbers.reduce((sum, one) => sum + one, 0)
  return {
    paid: -total(charges.map(({ amount }) => amount)),
    owed: total(charges.map(({ owed = 0 }) => owed)),
    repaid: -total(rows.filter(({ type }) => type === 'repayment').map(({ amount }) => amount)),
    locks: total(charges.flatMap((row) => (row.estimated ? [(row.owed ?? 0) - row.amount] : []))),
  }
}

t.test('behind a shield of holds, what was used is charged in full', async (t) => {
  const world = await arrange(t)
  const { victim, witness, account, backend } = world
  // The locks at both gateways leave room for six holds, but not for what those requests cost.
  const half = (granted - 6 * 900) / 2
  const locks = [
    new Reading(await victim.call('/v1/chat', account.key, lock(half))),
    new Reading(await witness.call('/v1/chat', account.key, lock(half))),
  ] as const
  await Promise.all(locks.map((one) => one.until('"w"')))
  const answers = await run(world, { gates: [victim, witness], account, count: 6 })
  t.same(
    answers,
    Array.from({ length: 6 }, () => 200),
  )
  const used = backend.served.prompt
  const shielded = await balanceOf(witness, account)
  const sofar = await sums(witness, account)
  t.comment(`used ${used}, paid ${sofar.paid}, owed ${sofar.owed}`)
  t.equal(sofar.paid + sofar.owed, used, 'all of it is charged')
  t.equal(shielded.owed, sofar.owed)
  t.ok(shielded.owed > 0)
  t.equal(shielded.available, 0)
  t.ok(shielded.balance >= 0)
  t.match(await refusal(witness, account), {
    status: 402,
    error: { code: 'insufficient_balance', owed: shielded.owed, available: 0 },
  })
  t.same(await differencesOf(witness), [])

  await victim.kill()
  await locks[1].cancel()
  await until(async () => (await balanceOf(witness, account)).reserved === 0)
  const after = await sums(witness, account)
  t.match(await balanceOf(witness, account), { owed: 0, balance: granted - used - after.locks })
  t.equal(after.repaid, after.owed, 'what the locks held paid the debt')
  t.ok(after.locks < 200, 'the locks were cheap')
  t.same(await differencesOf(witness), [])
})

t.test('an account that owes too much is refused until it has paid', async (t) => {
  const world = await arrange(t)
  const { gate, victim, witness, account, backend } = world
  const gates = [victim, witness]
  const answers = await run(world, { gates, account, count: 20 })
  t.equal(answers.filter((status) => status === 200).length, 20)
  const used = backend.served.prompt
  const owed = used - granted
  t.match(await balanceOf(witness, account), { balance: 0, owed, available: 0 })
  for (const one of gates) {
    const { status, error } = await refusal(one, account)
    t.equal(status, 402)
    t.match(error, { code: 'insufficient_balance', owed, available: 0 })
    t.match(error.message, String(owed), 'the message says so')
  }
  gate.open()
  t.equal((await victim.call('/v1/chat', account.key, free)).status, 200, 'what is free stays free')

  await victim.kill()
  const heir = await spawnGateway(t, world)
  const metrics = async () => (await fetch(`${heir.adminUrl}/metrics`)).text()
  await until(async () => (await metrics()).includes(`\ntollgate_owed_tokens ${owed}\n`))
  const topUp = async (amount: number) =>
    t.equal((await witness.admin('POST', `accounts/${account.id}/topup`, { amount })).status, 200)
  await topUp(owed - 1)
  t.match(await balanceOf(witness, account), { balance: 0, owed: 1, available: 0 })
  t.match(await refusal(witness, account), { status: 402, error: { owed: 1 } })
  await topUp(1001)
  t.match(await balanceOf(witness, account), { balance: 1000, owed: 0, available: 1000 })
  t.equal((await refusal(witness, account)).status, 200)
  const rows = await transactionsOf(witness, account)
  t.match(
    rows.filter(({ type }) => type === 'repayment').map(({ amount }) => amount),
    [1 - owed, -1],
  )
  t.same(await differencesOf(witness), [])
})
