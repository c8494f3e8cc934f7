// When its client has read the last byte, the hold of a request is released and its cost charged: at any gateway.

import { Agent, request } from 'node:http'
import { text } from 'node:stream/consumers'
import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { spawnGateway } from '../fixtures/gateway.ts'
import type { Account, TestGateway } from '../fixtures/gateway.ts'
import type { Balance } from '../../src/ledger/balance.ts'
import { ask, outputOnly } from '../fixtures/money.ts'
import { seeded } from '../fixtures/random.ts'
import { startRedis } from '../fixtures/redis-server.ts'

const rounds = process.env.LONG ? 20_000 : 2000
/** Customers at the same time, each with one request after the other: a busy gateway is late more easily. */
const customers = 4
const tokens = 2

const plans = (concurrency: number) =>
  `{ default: { requests_per_minute: 1000000, tokens_per_minute: 1000000000, concurrency: ${concurrency} } }`

interface Customer {
  readonly account: Account
  readonly i: number
  readonly gate: TestGateway
  readonly other: TestGateway
  readonly isStream: boolean
}

async function twoGateways(t: Test, concurrency: number) {
  const redis = await startRedis(t)
  const backend = await startBackend(t, chat())
  const yaml = `${outputOnly(backend.url, plans(concurrency))}log: { level: error }`
  const gates = [
    await spawnGateway(t, { redis, yaml }),
    await spawnGateway(t, { redis, yaml }),
  ] as const
  const agent = new Agent({ keepAlive: true })
  t.teardown(() => agent.destroy())
  /** Faster than fetch: with a slow client, a small delay would not be noticed. */
  const call = async (gate: TestGateway, { key }: Account, path: string, body?: object) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const method = body ? 'POST' : 'GET'
    const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>()
    const sent = request(gate.url + path, { agent, method, headers }, (answer) => {
      text(answer).then((all) => resolve({ status: answer.statusCode ?? 0, text: all }), reject)
    })
    sent.on('error', reject).end(body && JSON.stringify(body))
    return promise
  }
  const each = async (round: (customer: Customer) => Promise<boolean>) => {
    const customer = async (_: unknown, seed: number) => {
      const account = await gates[0].account(10_000_000)
      const random = seeded(seed)
      let wrong = 0
      for (let i = 0; i < rounds / customers; i++) {
        const [gate, other] = random(2) === 0 ? gates : ([gates[1], gates[0]] as const)
        if (!(await round({ account, i, gate, other, isStream: random(2) === 0 }))) wrong++
      }
      return wrong
    }
    const wrong = await Promise.all(Array.from({ length: customers }, customer))
    return wrong.reduce((sum, one) => sum + one, 0)
  }
  return { call, each }
}

t.test(
  `of ${rounds} requests one after the other over two gateways, none is refused for concurrency`,
  async (t) => {
    const { call, each } = await twoGateways(t, 1)
    const refused = await each(async ({ account, gate, isStream }) => {
      return (await call(gate, account, '/v1/chat', ask(tokens, isStream))).status === 200
    })
    t.equal(refused, 0)
  },
)

t.test(
  `of ${rounds} balances read at one gateway after an answer of another, none is stale`,
  async (t) => {
    const { call, each } = await twoGateways(t, 10)
    const stale = await each(async ({ account, i, gate, other, isStream }) => {
      await call(gate, account, '/v1/chat', ask(tokens, isStream))
      const read = await call(other, account, '/api/billing/balance')
      const { spent, reserved }: Balance = JSON.parse(read.text)
      return reserved === 0 && spent === (i + 1) * tokens
    })
    t.equal(stale, 0)
  },
)
