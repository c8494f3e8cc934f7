// Redis in states that are neither up nor away, under load of requests and streams at two gateways: its memory is full, it
// forgets scripts, it is slow, it hangs, it is a replica for a while. Nobody gets anything but an answer or 503 with
// Retry-After; afterwards nothing is held, charges are what the backend counted, and the audit finds nothing.

import t from 'tap'
import type { Test } from 'tap'
import { setImmediate as turn } from 'node:timers/promises'
import { keys } from '../../src/redis/keys.ts'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { useSessionsAndFiles } from '../fixtures/every-part.ts'
import { accountsFor, breakUnderLoad } from '../fixtures/fail-over.ts'
import type { Load, SoFar } from '../fixtures/fail-over.ts'
import { startGateway } from '../fixtures/gateway.ts'
import type { Account } from '../fixtures/gateway.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { outputOnly, refOf } from '../fixtures/money.ts'
import { durable } from '../fixtures/aof.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { until } from '../fixtures/until.ts'

const backend = await startBackend(t, chat({ chunks: 5 }))
const redis = await startRedis(t, { args: [...durable, '--enable-debug-command', 'yes'] })
const yaml = outputOnly(backend.url)
const gateways = [
  await startGateway(t, { redis, yaml }),
  await startGateway(t, { redis, yaml }),
] as const
// Longer than Redis hangs in any test.
const { client } = await connectLink(t, redis.socket, 60_000)

/** What stands between the gateways and their answers. */
interface State {
  readonly accounts: readonly Account[]
  breakIt(soFar: SoFar, accounts: readonly Account[]): Promise<void>
}

async function survives(t: Test, breakIt: State['breakIt']) {
  const accounts = await accountsFor(gateways[0], 8)
  const load: Load = {
    gateways,
    backend,
    accounts,
    breakIt: (soFar) => breakIt(soFar, accounts),
  }
  const outcome = await breakUnderLoad(t, load)
  t.same(outcome.strange, [])
  await useSessionsAndFiles(t, gateways[0], (await gateways[1].account(10_000)).key)
  return outcome
}

const full = () => client.config('SET', 'maxmemory', 1)
const roomy = () => client.config('SET', 'maxmemory', 0)

async function heldBy(accounts: readonly Account[]): Promise<number> {
  const counts = accounts.map((account) => client.hlen(keys.holdRows(refOf(account))))
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0)
}

t.test('memory is full: what began is settled meanwhile, and nothing new begins', async (t) => {
  const { refusedMs } = await survives(t, async (soFar, accounts) => {
    await full()
    await until(() => soFar.refused > 100)
    await until(async () => (await heldBy(accounts)) === 0)
    const { served } = soFar
    const { refused } = soFar
    await until(() => soFar.refused > refused + 100)
    t.equal(soFar.served, served, 'nothing is admitted')
    await roomy()
  })
  t.equal(refusedMs.size, 8)
})

t.test('memory is full and empty by turns: no script is cut in two', async (t) => {
  await survives(t, async (soFar) => {
    const { served } = soFar
    for (let i = 0; i < 500 || soFar.served < served + 100; i++) {
      await (i % 2 === 0 ? full() : roomy())
      await turn()
    }
    await roomy()
  })
})

t.test('scripts are forgotten again and again: nobody notices', async (t) => {
  const { refusedMs } = await survives(t, async (soFar) => {
    const { served } = soFar
    while (soFar.served < served + 500) await client.script('FLUSH')
  })
  t.equal(refusedMs.size, 0)
})

for (const [how, hang] of [
  ['is slow', () => client.client('PAUSE', 1000, 'ALL')],
  ['hangs for longer than a command may take', () => client.client('PAUSE', 3000, 'ALL')],
  ['takes no writes for a while', () => client.client('PAUSE', 3000, 'WRITE')],
  ['is busy for longer than a command may take', () => client.call('DEBUG', 'SLEEP', '3')],
] as const) {
  t.test(`Redis ${how}`, async (t) => {
    await survives(t, async () => {
      await hang()
      await client.ping()
    })
  })
}

t.test('the primary is a replica for a while: 503 until it is the primary again', async (t) => {
  const { refusedMs } = await survives(t, async (soFar) => {
    await client.replicaof('127.0.0.1', 1)
    await until(() => soFar.refused > 500)
    await client.replicaof('NO', 'ONE')
  })
  t.equal(refusedMs.size, 8)
})
