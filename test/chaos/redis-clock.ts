// The clock of Redis jumps by an hour, forwards and backwards, under load of requests and streams. All leases seem to
// have ended, or to last for an hour more: holds are reaped too early and opened again, and each is charged once. The
// sums of usage by hours and by days have each charge once, too.

import t from 'tap'
import type { UsageList } from '../../src/ledger/usage.ts'
import { keys } from '../../src/redis/keys.ts'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { startClockProxy } from '../fixtures/clock-proxy.ts'
import { useSessionsAndFiles } from '../fixtures/every-part.ts'
import { accountsFor, breakUnderLoad } from '../fixtures/fail-over.ts'
import { Gate } from '../fixtures/gate.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { metricOf } from '../fixtures/metric.ts'
import { Reading, ask, balanceOf, differencesOf, outputOnly, refOf } from '../fixtures/money.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { until } from '../fixtures/until.ts'

const hour = 3600
const redis = await startRedis(t)
const clock = await startClockProxy(t, redis.socket)
const { client } = await connectLink(t, redis.socket)
const backend = await startBackend(t, chat({ chunks: 5 }))
const setup = { redis, redisUrl: `unix://${clock.socket}`, yaml: outputOnly(backend.url) }
const gateways = [await startGateway(t, setup), await startGateway(t, setup)] as const
const [one, other] = gateways

/** What all accounts have used, in hours or days. */
async function costBy(bucket: 'hour' | 'day'): Promise<number> {
  const now = Math.floor(Date.now() / 1000)
  const query = `usage?bucket=${bucket}&from=${now - 3 * hour}&to=${now + 24 * hour}`
  const { data } = (await (await one.admin('GET', query)).json()) as UsageList
  return data.reduce((sum, { cost }) => sum + cost, 0)
}

t.test('it jumps by an hour and back, both ways', async (t) => {
  const accounts = await accountsFor(one, 8)
  const { strange } = await breakUnderLoad(t, {
    gateways,
    backend,
    accounts,
    async breakIt(soFar) {
      for (const seconds of [hour, 0, -hour, 0]) {
        await clock.set(seconds)
        const { served } = soFar
        await until(() => soFar.served > served + 100)
      }
    },
  })
  t.same(strange, [])
  const balances = await Promise.all(accounts.map((account) => balanceOf(other, account)))
  const spent = balances.reduce((sum, balance) => sum + balance.spent, 0)
  t.same([await costBy('hour'), await costBy('day')], [spent, spent])
  await useSessionsAndFiles(t, one, (await other.account(10_000)).key)
})

const reaped = () => metricOf(other, 'tollgate_holds_reaped_total ')

t.test('streams that run while it jumps are reaped by others, and go on', async (t) => {
  const account = await one.account(1000)
  const before = backend.served.completion
  const costBefore = await costBy('hour')
  const gates = Array.from({ length: 10 }, () => new Gate())
  const streams: Reading[] = []
  for (const gate of gates) {
    gate.next(4)
    backend.once(chat({ chunks: 8, gate }))
    const reading = new Reading(await one.call('/v1/chat', account.key, ask(20, true)))
    await reading.until('w2 ')
    streams.push(reading)
  }
  const holds = () => client.hlen(keys.holdRows(refOf(account)))
  t.equal(await holds(), 10)
  // If a checkpoint comes between the jump and the reaping, it has renewed leases: then the clock jumps again.
  let jumps = 0
  await until(async () => {
    const reapedBefore = await reaped()
    await clock.set(++jumps * hour)
    await balanceOf(other, account)
    const isAll = (await reaped()) === reapedBefore + 10
    await until(async () => (await holds()) === 10)
    return isAll
  })
  t.pass('their gateway has opened them again')
  await clock.set(0)
  for (const gate of gates) gate.open()
  for (const reading of streams) t.match(await reading.end(), /w7 [\s\S]*data: \[DONE\]\n\n$/)
  await until(async () => (await balanceOf(one, account)).reserved === 0)
  const { balance } = await balanceOf(other, account)
  t.equal(1000 - balance, backend.served.completion - before)
  t.equal(1000 - balance, 80)
  const cost = costBefore + 80
  t.same([await costBy('hour'), await costBy('day')], [cost, cost])
  t.same(await differencesOf(one), [])
})
