import t from 'tap'
import { keys } from '../src/redis/keys.ts'
import { createScripts } from '../src/redis/scripts.ts'
import { sessionScripts } from '../src/sessions/library.ts'
import { conditionOf, restSessions } from '../src/upkeep.ts'
import { letObjectsAge } from './fixtures/asleep.ts'
import { startGateway } from './fixtures/gateway.ts'
import { metricOf } from './fixtures/metric.ts'
import { refOf } from './fixtures/money.ts'
import { createOld } from './fixtures/old-sessions.ts'
import { addMessage } from './fixtures/sessions.ts'
import { until } from './fixtures/until.ts'

const yaml = "models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }\n"

t.test('what all accounts have is read at the start', async (t) => {
  const first = await startGateway(t, { yaml })
  await first.account(30)
  await first.account(12)
  const second = await startGateway(t, { yaml, redis: first.redis })
  await until(async () => (await metricOf(second, 'tollgate_balance_tokens ')) === 42)
})

t.test('gauges are right from the first scrape on', async (t) => {
  const { adminUrl, gateway } = await startGateway(t, { yaml })
  const text = await (await fetch(`${adminUrl}/metrics`)).text()
  t.match(text, '\ntollgate_redis_up 1\n')
  t.same(conditionOf(gateway), { isReady: true, redis: 'ok', ledger: 'ok', spool: 'ok' })
  gateway.state.draining = true
  t.match(conditionOf(gateway), { isReady: false })
})

t.test('sessions go to sleep as the configuration says now, and the log tells', async (t) => {
  const running = await startGateway(t, { yaml })
  const { gateway, log, rewrite } = running
  const redis = gateway.redis.client
  const ref = refOf(await running.account(0))
  const scripts = createScripts({ link: gateway.redis, library: sessionScripts })
  const session = await createOld({ redis, scripts }, ref, { agoMs: 7_200_000 })
  await addMessage(redis, { ref, session })
  await using undo = new AsyncDisposableStack()
  const configNow = () => gateway.current.config
  const round = restSessions({ ...gateway, configNow }, undo)
  const told = () => log.filter((line) => line.includes('sleep')).map((line) => JSON.parse(line))
  await round()
  t.notOk(await redis.hexists(keys.session(ref, session), 'asleep'), 'by default they do not')
  await rewrite(`${yaml}plugins: { sessions: { archive_after: 1h } }\n`)
  await gateway.current.reload('test')
  await redis.del(keys.sleepWalk)
  await round()
  t.ok(await redis.hexists(keys.session(ref, session), 'asleep'))
  await round()
  t.match(told(), [{ level: 'info', slept: 1, removed: 0 }])
  await redis.del(keys.session(ref, session), keys.sleepWalk)
  await letObjectsAge(redis, ref)
  await round()
  t.match(told(), [{}, { slept: 0, removed: 1 }])
})
