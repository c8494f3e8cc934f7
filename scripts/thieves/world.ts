// What a round of thieves needs: a real Redis, the honest backend, and two gateways of their own processes on both. Whether
// a gateway knows a key of gateway.yaml is asked of `tollgate check`, so that old and new ones can be robbed alike.

import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Test } from 'tap'
import { spawnGateway } from '../../test/fixtures/gateway.ts'
import type { OwnProcess } from '../../test/fixtures/gateway.ts'
import { startRedis } from '../../test/fixtures/redis-server.ts'
import type { RedisServer } from '../../test/fixtures/redis-server.ts'
import { tempDir } from '../../test/fixtures/temp-dir.ts'
import { startHonestBackend } from './backend.ts'
import { answerBytes, modelsYaml, newerKeys } from './models.ts'
import type { Truths } from './truth.ts'

export const leaseMs = 3000

export interface World {
  readonly redis: RedisServer
  readonly truths: Truths
  readonly gateways: readonly [OwnProcess, OwnProcess]
  /** Keys of gateway.yaml that these gateways take, of those that old ones do not. */
  readonly known: ReadonlySet<string>
  /** A third one, to be killed. */
  spawn(): Promise<OwnProcess>
}

export async function startWorld(t: Pick<Test, 'teardown'>): Promise<World> {
  const backend = await startHonestBackend(t)
  const redis = await startRedis(t, { args: ['--appendonly', 'yes'] })
  const known = await knownKeys(t, backend.url)
  const yaml = `${modelsYaml({ backendUrl: backend.url, known })}
plans:
  default: { requests_per_minute: 1000000, tokens_per_minute: 1000000000, concurrency: 100000 }
  single: { requests_per_minute: 1000000, tokens_per_minute: 1000000000, concurrency: 1 }
plugins: { metering: { lease: ${leaseMs}ms } }
limits: { answer: ${answerBytes} }
log: { level: error, format: json }
`
  const spawn = () => spawnGateway(t, { yaml, redis })
  const gateways = [await spawn(), await spawn()] as const
  return { redis, truths: backend.truths, gateways, known, spawn }
}

const main = resolve(import.meta.dirname, '../../src/main.ts')

/** `check` names every key that it does not know. */
export async function knownKeys(
  t: Pick<Test, 'teardown'>,
  backendUrl: string,
): Promise<ReadonlySet<string>> {
  const dir = join(await tempDir(t), 'check')
  await mkdir(dir)
  const file = join(dir, 'gateway.yaml')
  await writeFile(file, modelsYaml({ backendUrl, known: new Set(newerKeys) }))
  const text = await new Promise<string>((tell) => {
    execFile(process.execPath, [main, 'check', '--config', file], (_error, stdout, stderr) =>
      tell(stdout + stderr),
    )
  })
  return new Set(newerKeys.filter((key) => !new RegExp(`\\b${key}\\b`).test(text)))
}
