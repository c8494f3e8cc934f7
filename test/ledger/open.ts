// The ledger as a gateway opens it: with its keys of the configuration, and with what it reports in metrics and log.

import { join } from 'node:path'
import t from 'tap'
import { loadConfig } from '../../src/config/load.ts'
import { plugins } from '../../src/gateway.ts'
import { openLedger } from '../../src/ledger/open.ts'
import { createLog } from '../../src/log.ts'
import { createMetrics } from '../../src/metrics.ts'
import { connect } from '../../src/redis/connect.ts'
import { diskStore } from '../../src/store/disk.ts'
import { deadlineOf, makeAccount, request, topUp, used } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

t.test('the lease is the one of gateway.yaml, and plans are those of the file', async (t) => {
  const { socket } = await startRedis(t)
  const data = await tempDir(t)
  const yaml = `
data: ${data}
redis: unix://${socket}
models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }
plans: { default: { concurrency: 1 } }
plugins: { metering: { lease: 90s } }
`
  const file = `${t.testdir({ 'gateway.yaml': yaml })}/gateway.yaml`
  const loaded = await loadConfig(file, plugins, { env: {} })
  if ('problems' in loaded) return t.fail(JSON.stringify(loaded.problems))
  const redis = await connect(loaded.config.redis)
  t.teardown(() => redis.close())
  const metrics = createMetrics('test')
  const log = createLog({ level: 'silent', format: 'json' })
  const store = diskStore(join(data, 'store'))
  const { ledger, close } = await openLedger(loaded.config, { redis, store, metrics, log })
  t.equal(ledger.leaseMs, 90_000)
  const caller = await makeAccount(redis)
  await topUp(ledger, caller, 100)
  const hold = await ledger.admit(request(caller, 10))
  const [seconds] = await redis.client.time()
  const leftS = (await deadlineOf(redis, caller.ref, hold.id)) / 1000 - Number(seconds)
  t.ok(leftS > 60 && leftS <= 91, `${leftS}`)
  await t.rejects(ledger.admit(request(caller, 10)), { code: 'concurrency_limit_exceeded' })
  await ledger.settle(hold, { ...used(5), implausible: 7 })
  const text = await metrics.text()
  t.match(text, /redis_command_seconds_count\{script="settle"\} 1\n/)
  t.match(text, /implausible\w*_total\S* 7\n/)
  await close()
  t.equal(ledger.isOpen, false)
})
