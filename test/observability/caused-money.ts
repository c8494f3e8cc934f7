// Alerts on money: each is caused on a real gateway, and fires from what its /metrics said before and after.

import { utimes } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { parseKey } from '../../src/accounts/api-key.ts'
import { releaseOrder } from '../../src/ledger/orders.ts'
import { openSpool } from '../../src/ledger/spool.ts'
import { startBackend } from '../fixtures/backend.ts'
import type { Script } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { json } from '../fixtures/backend-scripts.ts'
import { Gate } from '../fixtures/gate.ts'
import { spawnGateway, startGateway } from '../fixtures/gateway.ts'
import type { TestGateway } from '../fixtures/gateway.ts'
import { metricOf } from '../fixtures/metric.ts'
import { Reading, ask, outputOnly } from '../fixtures/money.ts'
import { ensurePrometheus } from '../fixtures/prometheus.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { fires, isQuiet, scrape, seriesOf } from '../fixtures/scrapes.ts'
import { tempDir } from '../fixtures/temp-dir.ts'
import { until } from '../fixtures/until.ts'

await ensurePrometheus()

/** A gateway whose model has answered five requests; the scrape before. From then on the backend does as the script says. */
async function world(t: Test, script: Script, yaml = outputOnly) {
  const backend = await startBackend(t)
  const redis = await startRedis(t)
  const gateway = await startGateway(t, { yaml: yaml(backend.url), redis })
  const askAll = async (tokens: number) => {
    const { key } = await gateway.account(tokens)
    for (let i = 0; i < 5; i++) await (await gateway.call('/v1/chat', key, ask(20, true))).text()
  }
  await askAll(1000)
  const before = await scrape(gateway)
  backend.on(script)
  return { redis, backend, gateway, askAll, before }
}

t.test('TollgateDebtsGrow: a backend sends more than the hold is for', async (t) => {
  const much = chat({ chunks: 30, ignoreMaxTokens: true })
  const { gateway, redis, backend, askAll, before } = await world(t, much)
  await askAll(20)
  // What is owed is read at a start, and once a minute.
  await gateway.close()
  const next = await startGateway(t, { yaml: outputOnly(backend.url), redis })
  await until(async () => (await metricOf(next, 'tollgate_owed_tokens')) === 10)
  await fires(t, 'TollgateDebtsGrow', { before, after: [await scrape(next)], within: 32 })
})

t.test('TollgateUsageImplausible: a backend reports a million tokens', async (t) => {
  const lie = json({
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 1, completion_tokens: 1_000_000, total_tokens: 1_000_001 },
  })
  const { gateway, before } = await world(t, lie)
  const { key } = await gateway.account(1000)
  await (await gateway.call('/v1/chat', key, ask(20, false))).text()
  // It is counted when Redis has settled it.
  await until(async () => (await metricOf(gateway, 'tollgate_implausible_tokens_total')) > 0)
  await fires(t, 'TollgateUsageImplausible', { before, after: [await scrape(gateway)], within: 1 })
})

t.test('TollgateUsageMissing: a backend reports none', async (t) => {
  const { gateway, askAll, before } = await world(t, chat({ usage: 'never' }))
  await askAll(1000)
  const after = [await scrape(gateway)]
  await fires(t, 'TollgateUsageMissing', { before, after, goesOn: true, within: 46 })
})

for (const price of [1, 0]) {
  t.test(`TollgateSoldBelowCost: a token costs 5, and customers pay ${price}`, async (t) => {
    const yaml = (url: string) =>
      outputOnly(url).replace('output: 1 }', `output: ${price} }, cost: { input: 0, output: 5 }`)
    const { gateway, askAll, before } = await world(t, chat(), yaml)
    await askAll(1000)
    const after = [await scrape(gateway)]
    await fires(t, 'TollgateSoldBelowCost', { before, after, goesOn: true, within: 65 })
  })
}

t.test('TollgateSoldBelowCost is about prices: in shadow mode, nobody need pay them', async (t) => {
  for (const price of [10, 1]) {
    const yaml = (url: string) =>
      outputOnly(url).replace('output: 1 }', `output: ${price} }, cost: { input: 0, output: 5 }`) +
      'plugins: { metering: { enforce: false } }\n'
    const { gateway, askAll, before } = await world(t, chat(), yaml)
    const waived = () => metricOf(gateway, 'tollgate_waived_tokens_total')
    const earlier = await waived()
    await askAll(0)
    await until(async () => (await waived()) === earlier + 25 * price)
    const seen = { before, after: [await scrape(gateway)], goesOn: true }
    if (price < 5) await fires(t, 'TollgateSoldBelowCost', { ...seen, within: 65 })
    else await isQuiet(t, 'a price above the cost', seriesOf(seen))
  }
})

const reaped = 'tollgate_holds_reaped_total'

t.test(
  'TollgateHoldsReaped: a gateway is killed; another one, and the next one, see it',
  async (t) => {
    const backend = await startBackend(t)
    const yaml = `${outputOnly(backend.url)}plugins: { metering: { lease: 2s } }\n`
    const redis = await startRedis(t)
    const witness = await startGateway(t, { yaml, redis })
    const before = await scrape(witness)
    const killed = async () => {
      const victim = await spawnGateway(t, { yaml, redis })
      const gate = new Gate()
      gate.next(2)
      backend.on(chat({ gate }))
      const { key } = await victim.account(1000)
      await new Reading(await victim.call('/v1/chat', key, ask(20, true))).until('w0 ')
      await victim.kill()
      return key
    }
    /** Who uses the account next ends the hold, once its lease is over. */
    const isReaped = async (gateway: TestGateway, key: string) => {
      await (await gateway.call('/api/billing/balance', key)).text()
      return (await metricOf(gateway, reaped)) > 0
    }
    const key = await killed()
    await until(() => isReaped(witness, key))
    await fires(t, 'TollgateHoldsReaped', { before, after: [await scrape(witness)], within: 1 })

    const otherKey = await killed()
    await witness.close()
    // Its first scrape, for it starts under a name of its own.
    const next = await startGateway(t, { yaml, redis })
    await until(() => isReaped(next, otherKey))
    await fires(t, 'TollgateHoldsReaped', { after: [await scrape(next)], within: 1 })
  },
)

const dayMs = 86_400_000

t.test('TollgateLateSettlements: a data folder is found again after two days', async (t) => {
  const redis = await startRedis(t)
  const dataDir = await tempDir(t)
  const yaml = outputOnly('http://127.0.0.1:1/v1')
  const first = await startGateway(t, { yaml, redis })
  const { key } = await first.account(1000)
  await first.close()
  const spool = await openSpool(join(dataDir, 'spool'))
  const ref = parseKey(key)?.ref ?? ''
  const twoDaysAgo = Date.now() - 2 * dayMs
  const id = `${twoDaysAgo.toString(16).padStart(12, '0')}${'0'.repeat(20)}`
  await spool.append({ ...releaseOrder(ref, '-', id), charge: 7 })
  await spool.close()
  await utimes(spool.path, twoDaysAgo / 1000, twoDaysAgo / 1000)

  const gateway = await startGateway(t, { yaml, redis, dataDir })
  await until(async () => (await metricOf(gateway, 'tollgate_late_settlements_total')) === 1)
  await fires(t, 'TollgateLateSettlements', { after: [await scrape(gateway)], within: 1 })
})
