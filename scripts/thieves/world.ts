// What a round of thieves needs: a real Redis, the honest backend, and two gateways of their own processes on both.

import { spawnGateway } from '../../test/fixtures/gateway.ts'
import type { OwnProcess } from '../../test/fixtures/gateway.ts'
import { connectLink } from '../../test/fixtures/ledger.ts'
import type { TestLink } from '../../test/fixtures/ledger.ts'
import { startRedis } from '../../test/fixtures/redis-server.ts'
import type { RedisServer } from '../../test/fixtures/redis-server.ts'
import type { Teardown } from '../../test/fixtures/teardown.ts'
import { startHonestBackend } from './backend.ts'
import { answerBytes, modelsYaml } from './models.ts'
import type { Truths } from './truth.ts'

const leaseMs = 3000

export interface World {
  readonly redis: RedisServer
  /** To read what the ledger has noted of running requests. */
  readonly link: TestLink
  readonly truths: Truths
  readonly gateways: readonly [OwnProcess, OwnProcess]
  /** Starts a third gateway, which may be killed. */
  spawn(): Promise<OwnProcess>
}

export async function startWorld(t: Teardown): Promise<World> {
  const backend = await startHonestBackend(t)
  const redis = await startRedis(t, { args: ['--appendonly', 'yes'] })
  const yaml = `${modelsYaml(backend.url)}
plans:
  default: { requests_per_minute: 1000000, tokens_per_minute: 1000000000, concurrency: 100000 }
  single: { requests_per_minute: 1000000, tokens_per_minute: 1000000000, concurrency: 1 }
plugins: { metering: { lease: ${leaseMs}ms } }
limits: { answer: ${answerBytes} }
log: { level: error, format: json }
`
  const spawn = () => spawnGateway(t, { yaml, redis })
  const gateways = [await spawn(), await spawn()] as const
  const link = await connectLink(t, redis.socket)
  return { redis, link, truths: backend.truths, gateways, spawn }
}
