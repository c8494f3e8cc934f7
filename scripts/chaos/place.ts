// A machine with a gateway, which may be dead, with lines of its own to each server of Redis and to S3.

import { stat, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isRunning } from '../../src/data/lock.ts'
import { within } from '../../src/sharing/patience.ts'
import { fillDisk, freeDisk } from '../../test/fixtures/full-disk.ts'
import { lastingPort } from '../../test/fixtures/free-port.ts'
import { spawnGateway } from '../../test/fixtures/gateway.ts'
import type { GatewaySetup, OwnProcess } from '../../test/fixtures/gateway.ts'
import { childrenOf } from '../../test/fixtures/process.ts'
import type { S3Server } from '../../test/fixtures/s3-server.ts'
import { s3Yaml } from '../../test/fixtures/s3-server.ts'
import type { Teardown } from '../../test/fixtures/teardown.ts'
import { tempDir } from '../../test/fixtures/temp-dir.ts'
import { detourFlags, detours } from './detour.ts'
import { startLine } from './line.ts'
import type { Line } from './line.ts'
import type { Risks } from './risks.ts'

export const leaseMs = 3000
export const prefix = 'chaos/'
/** Ends first, and long before a lease. */
const drainMs = 1500
/** A gateway that has not ended by then never will. */
const endingMs = 60_000
/** How long a gateway may be started again because Redis is away. */
const startingMs = 60_000
/** The log begins here, behind a hole, so that it is longer than all other files. */
const logStart = 2 ** 30

export interface PlaceParts {
  readonly t: Teardown
  readonly workers: number
  /** For `redis` in gateway.yaml. */
  readonly redisYaml: string
  readonly redisPorts: readonly number[]
  readonly s3: S3Server
  readonly backendPorts: readonly number[]
  readonly risks: Risks
}

type Setup = GatewaySetup & { readonly logFile: string }

interface Lines {
  /** One to each server. */
  readonly toRedis: readonly Line[]
  readonly toStore: Line
}

export class Place implements Lines {
  readonly name: string
  /** How many processes serve; 1: the gateway's own. */
  readonly workers: number
  readonly toRedis: readonly Line[]
  readonly toStore: Line
  readonly #parts: PlaceParts
  readonly #setup: Setup
  #gateway: OwnProcess
  /** The workers of gateways that were killed or stopped. */
  readonly #left: number[] = []

  static async make(name: string, parts: PlaceParts): Promise<Place> {
    const { t, redisPorts, s3 } = parts
    const host = '127.0.0.1'
    const ways = redisPorts.map(async (port) => [port, await startLine(t, { host, port })] as const)
    const toRedis = new Map(await Promise.all(ways))
    const toStore = await startLine(t, { host, port: Number(new URL(s3.endpoint).port) })
    const folder = await tempDir(t)
    const logFile = join(folder, 'log')
    await writeFile(logFile, '')
    await truncate(logFile, logStart)
    const setup = {
      isBare: true,
      redisUrl: parts.redisYaml,
      yaml: yamlFor(parts, toStore),
      port: await lastingPort(),
      adminPort: await lastingPort(),
      dataDir: join(folder, 'data'),
      env: detours(toRedis),
      flags: detourFlags,
      logFile,
    }
    const lines = { toRedis: [...toRedis.values()], toStore }
    return new Place(name, { parts, setup, lines, gateway: await spawnGateway(t, setup) })
  }

  private constructor(name: string, { parts, setup, lines, gateway }: Making) {
    this.name = name
    this.workers = parts.workers
    this.toRedis = lines.toRedis
    this.toStore = lines.toStore
    this.#parts = parts
    this.#setup = setup
    this.#gateway = gateway
  }

  /** The process that runs, or ran last. */
  get gateway(): OwnProcess {
    return this.#gateway
  }

  /** The bytes of its log. */
  async logSize(): Promise<number> {
    return (await stat(this.#setup.logFile)).size - logStart
  }

  /** All processes of the gateway that runs. */
  async pids(): Promise<readonly number[]> {
    const { pid } = this.#gateway
    return [pid, ...(await childrenOf(pid))]
  }

  /** Workers that still run although their gateway was killed or stopped. */
  orphans(): readonly number[] {
    return this.#left.filter(isRunning)
  }

  async fill(what: 'disk' | 'log'): Promise<void> {
    const longest = what === 'log' ? logStart : 0
    for (const pid of await this.pids()) if (isRunning(pid)) fillDisk(pid, longest)
  }

  async free(): Promise<void> {
    for (const pid of await this.pids()) if (isRunning(pid)) freeDisk(pid)
  }

  async kill(): Promise<void> {
    this.#parts.risks.killed(this.name)
    await this.#leave()
    await this.#gateway.kill()
  }

  /** Kills one of several workers; another one takes its place. */
  async killWorker(): Promise<void> {
    const [worker] = await childrenOf(this.#gateway.pid)
    if (worker === undefined) return
    this.#parts.risks.killed(this.name)
    process.kill(worker, 'SIGKILL')
  }

  /** SIGTERM; resolves with the exit code. */
  async stop(): Promise<number | null> {
    await this.#leave()
    return within(this.#gateway.stop(), endingMs, `the end of ${this.name}`)
  }

  async start(): Promise<void> {
    const endsAt = performance.now() + startingMs
    for (;;) {
      try {
        this.#gateway = await spawnGateway(this.#parts.t, this.#setup)
        return
      } catch (error) {
        // As whoever starts services does: a gateway gives up when it does not reach Redis.
        const isAway = error instanceof Error && error.message.includes("can't be used")
        if (!isAway || performance.now() > endsAt) throw error
      }
    }
  }

  async #leave(): Promise<void> {
    this.#left.push(...(await childrenOf(this.#gateway.pid)))
  }
}

interface Making {
  readonly parts: PlaceParts
  readonly setup: Setup
  readonly lines: Lines
  readonly gateway: OwnProcess
}

function yamlFor({ backendPorts, s3, workers }: PlaceParts, toStore: Line): string {
  const model = {
    targets: backendPorts.map((port) => ({ url: `http://127.0.0.1:${port}/v1` })),
    breaker: { failures: 5, cool_down: '1s' },
    max_output_tokens: 2000,
    timeouts: { connect: '1s', first_token: '5s', idle: '5s', total: '30s' },
  }
  const store = { ...s3Yaml(s3), endpoint: `http://127.0.0.1:${toStore.port}`, prefix }
  const plan = {
    requests_per_minute: 1_000_000,
    tokens_per_minute: 1_000_000_000,
    concurrency: 100_000,
  }
  const all = {
    models: { end: model },
    plans: { default: plan },
    store: { s3: store },
    workers,
    plugins: { metering: { lease: `${leaseMs}ms` } },
    drain: `${drainMs}ms`,
    log: { level: 'info', format: 'json' },
  }
  return Object.entries(all)
    .map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`)
    .join('')
}
