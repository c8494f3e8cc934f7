// 200 requests at once on a balance that is enough for 7, through two processes that share one Redis: promises 1 to 3.

import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { keys } from '../../src/redis/keys.ts'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { codeOf, spawnGateway } from '../fixtures/gateway.ts'
import type { Account, TestGateway } from '../fixtures/gateway.ts'
import { connectLink } from '../fixtures/ledger.ts'
import type { TestLink } from '../fixtures/ledger.ts'
import { ask, balanceOf, chargesOf, differencesOf, outputOnly, refOf } from '../fixtures/money.ts'
import { seeded } from '../fixtures/random.ts'
import { startRedis } from '../fixtures/redis-server.ts'

const seeds = 50
const parallel = 200
const affords = 7
const hold = 4
/** In turns of the event loop: each request begins in another one. */
const maxJitterTurns = 40

async function race(gates: readonly TestGateway[], { key }: Account, seed: number) {
  const random = seeded(seed)
  const one = async () => {
    const gate = gates[random(gates.length)]
    const isStream = random(2) === 0
    for (let turns = random(maxJitterTurns); turns > 0; turns--) await nextTurn()
    const call = async () => await gate?.call('/v1/chat', key, ask(hold, isStream))
    let answer = await call()
    // On a busy machine Redis may answer too late. Clients are told to try again, and this one does.
    while (answer?.status === 503) {
      await answer.body?.cancel()
      await wait(1000 * Number(answer.headers.get('retry-after')))
      answer = await call()
    }
    if (!answer) return 'no gateway'
    if (answer.status !== 200) return await codeOf(answer)
    const text = await answer.text()
    if (isStream && !text.endsWith('data: [DONE]\n\n')) return 'no end'
    return 'served'
  }
  return Object.groupBy(await Promise.all(Array.from({ length: parallel }, one)), (how) => how)
}

/** The lowest available balance, read in Redis itself until `stop` fires. */
async function watchLeast({ client }: TestLink, account: Account, stop: AbortSignal) {
  let least = Infinity
  let samples = 0
  while (!stop.aborted) {
    const sums = await client.hmget(keys.account(refOf(account)), 'granted', 'spent', 'reserved')
    const [granted = 0, spent = 0, reserved = 0] = sums.map(Number)
    least = Math.min(least, granted - spent - reserved)
    samples++
    await wait(1)
  }
  return { least, samples }
}

t.test(
  'of 200 requests at once exactly those are served that the balance affords, at two gateways, for 50 seeds',
  async (t) => {
    const redis = await startRedis(t)
    const backend = await startBackend(t, chat())
    const yaml = [
      outputOnly(backend.url),
      `plugins: { metering: { min_output_tokens: ${hold} } }`,
      'log: { level: error }',
    ].join('\n')
    const gates = [
      await spawnGateway(t, { redis, yaml }),
      await spawnGateway(t, { redis, yaml }),
    ] as const
    const link = await connectLink(t, redis.socket, 30_000)
    for (let seed = 1; seed <= seeds; seed++) {
      const account = await gates[0].account(affords * hold)
      const before = { asked: backend.requests.length, served: backend.served.completion }
      const over = new AbortController()
      const watching = watchLeast(link, account, over.signal)
      const { served = [], insufficient_balance: refused = [] } = await race(gates, account, seed)
      over.abort()
      const { least, samples } = await watching
      const charges = await chargesOf(gates[1], account)
      const seen = {
        served: served.length,
        refused: refused.length,
        asked: backend.requests.length - before.asked,
        tokens: backend.served.completion - before.served,
        charges: charges.map(({ amount }) => amount),
        balance: (await balanceOf(gates[1], account)).balance,
        reserved: (await balanceOf(gates[0], account)).reserved,
        neverBelow: least >= 0 && samples > 0,
      }
      t.same(
        seen,
        {
          served: affords,
          refused: parallel - affords,
          asked: affords,
          tokens: affords * hold,
          charges: Array.from({ length: affords }, () => -hold),
          balance: 0,
          reserved: 0,
          neverBelow: true,
        },
        `seed ${seed}`,
      )
    }
    t.same(await differencesOf(gates[0]), [])
  },
)
