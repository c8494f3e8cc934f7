// SIGTERM during streams: new work is refused, running work ends well or with a reason, and all of it is settled.

import { once } from 'node:events'
import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { Gate } from '../fixtures/gate.ts'
import { codeOf, spawnGateway } from '../fixtures/gateway.ts'
import {
  Reading,
  ask,
  balanceOf,
  differencesOf,
  outputOnly,
  transactionsOf,
} from '../fixtures/money.ts'
import { rawClient } from '../fixtures/raw-http.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { until } from '../fixtures/until.ts'

const chunks = 8

/** Two gateways on one Redis; the first has a stream that waits after its first three tokens, and was told to stop. */
async function draining(t: Test, drain: string) {
  const gate = new Gate()
  const backend = await startBackend(t, chat({ chunks, gate }))
  const redis = await startRedis(t)
  const yaml = [
    outputOnly(backend.url),
    'plugins: { metering: { lease: 2s } }',
    `drain: ${drain}`,
  ].join('\n')
  const leaving = await spawnGateway(t, { redis, yaml })
  const witness = await spawnGateway(t, { redis, yaml })
  const account = await leaving.account(1000)
  gate.next(4)
  const answer = await leaving.call('/v1/chat', account.key, ask(100, true))
  const reading = new Reading(answer)
  await reading.until('w2 ')
  const exited = once(leaving.child, 'exit') as Promise<[number | null, string | null]>
  leaving.child.kill('SIGTERM')
  return { gate, backend, leaving, witness, account, reading, exited }
}

t.test(
  'while it drains, a gateway is not ready, refuses new work and lets a stream end',
  async (t) => {
    const { leaving, witness, account, gate, backend, reading, exited } = await draining(t, '30s')
    await until(async () => (await fetch(`${leaving.adminUrl}/readyz`)).status === 503)
    t.equal((await fetch(`${leaving.adminUrl}/healthz`)).status, 200)
    const refused = await leaving.call('/v1/chat', account.key, ask(100, true))
    t.equal(refused.status, 503)
    t.equal(refused.headers.get('connection'), 'close')
    t.ok(Number(refused.headers.get('retry-after')) >= 1)
    t.ok(refused.headers.get('x-request-id'))
    t.equal(await codeOf(refused), 'server_draining')
    t.equal(backend.requests.length, 1)

    gate.open()
    t.match(await reading.end(), /w7 [^]*data: \[DONE\]\n\n$/)
    t.same(await exited, [0, null])
    t.match(await balanceOf(witness, account), { balance: 1000 - chunks, reserved: 0 })
    t.same(await differencesOf(witness), [])
  },
)

t.test(
  'a stream that outlasts the drain ends with a reason and is charged for what came; the exit is clean',
  async (t) => {
    const { witness, account, backend, reading, exited } = await draining(t, '300ms')
    const text = await reading.end()
    t.match(text, /"code":"server_draining"[^\n]*\n\n$/)
    t.notMatch(text, /\[DONE\]/)
    t.same(await exited, [0, null])
    const { balance, reserved } = await balanceOf(witness, account)
    t.equal(reserved, 0)
    const [, ...charges] = await transactionsOf(witness, account)
    t.match(charges, [{ type: 'charge', amount: balance - 1000, estimated: true }])
    t.ok(balance < 1000, 'what was generated is paid for')
    await backend.requests[0]?.closed
    t.same(await differencesOf(witness), [])
  },
)

t.test('an answer that came while a drain stood still is delivered and charged', async (t) => {
  const gate = new Gate()
  const backend = await startBackend(t, chat({ chunks, gate }))
  const redis = await startRedis(t)
  const drainMs = 1500
  const yaml = `${outputOnly(backend.url)}drain: ${drainMs}ms\n`
  const witness = await spawnGateway(t, { redis, yaml })
  const leaving = await spawnGateway(t, { redis, yaml })
  const account = await leaving.account(1000)
  const asking = leaving.call('/v1/chat', account.key, ask(100, false))
  const { closed } = await backend.request(0)
  const exited = once(leaving.child, 'exit') as Promise<[number | null, string | null]>
  leaving.child.kill('SIGTERM')
  await leaving.said(/"draining"/)
  leaving.child.kill('SIGSTOP')
  const stoppedAt = performance.now()
  gate.open()
  await closed
  await until(() => performance.now() > stoppedAt + drainMs)
  leaving.child.kill('SIGCONT')
  const answer = await asking
  t.equal(answer.status, 200)
  t.match(await answer.json(), { usage: { completion_tokens: chunks } })
  t.same(await exited, [0, null])
  t.match(await balanceOf(witness, account), { balance: 1000 - chunks, reserved: 0 })
})

t.test('requests that were sent before the end of `shutdown_delay` are served', async (t) => {
  const delayMs = 1000
  const yaml = `${outputOnly('http://127.0.0.1:1/v1')}shutdown_delay: ${delayMs}ms\n`
  const leaving = await spawnGateway(t, { yaml })
  const { key } = await leaving.account(1000)
  const exited = once(leaving.child, 'exit') as Promise<[number | null, string | null]>
  leaving.child.kill('SIGTERM')
  await leaving.said(/"draining"/)
  leaving.child.kill('SIGSTOP')
  const stoppedAt = performance.now()
  // More connections than a process that is busy accepts at once.
  const port = Number(new URL(leaving.url).port)
  const clients = await Promise.all(Array.from({ length: 100 }, () => rawClient(t, port)))
  for (const client of clients) {
    client.send(`GET /v1/models HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`)
  }
  await until(() => performance.now() > stoppedAt + delayMs)
  leaving.child.kill('SIGCONT')
  const answers = await Promise.all(clients.map((client) => client.answer()))
  t.same(new Set(answers.map(({ status }) => status)), new Set([200]))
  t.same(await exited, [0, null])
})

t.test('a second signal does not wait for streams; the hold is back after its lease', async (t) => {
  const { leaving, witness, account, reading, exited } = await draining(t, '30s')
  await until(async () => (await fetch(`${leaving.adminUrl}/readyz`)).status === 503)
  // Signals that come within half a second are one.
  const { child } = leaving
  await until(() => {
    child.kill('SIGTERM')
    return child.exitCode !== null
  })
  t.same(await exited, [1, null])
  await t.rejects(reading.end(), 'the stream is cut and does not look complete')
  await until(async () => (await balanceOf(witness, account)).reserved === 0)
  t.same(await differencesOf(witness), [])
})
