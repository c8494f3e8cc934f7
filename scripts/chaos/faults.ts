// What breaks beside Redis: gateways and their workers, disks, lines, S3, backends.

import { setTimeout as pause } from 'node:timers/promises'
import { until } from '../../test/fixtures/until.ts'
import { oneOf } from './fault.ts'
import type { Chance, Fault } from './fault.ts'
import type { Line } from './line.ts'
import { leaseMs } from './place.ts'
import type { Place } from './place.ts'
import { signalled } from './state.ts'
import type { World } from './world.ts'

const ofGateway = (
  name: string,
  atMost: number,
  run: (place: Place, chance: Chance) => Promise<void>,
): Fault => ({
  name,
  touches: 'gateway',
  atMost,
  run: (chance) => run(chance.place, chance),
})

export function faultsOf(world: World): readonly Fault[] {
  const { state, s3, toBackends } = world
  const nodes = state.ports.length > 1 ? ofNodes : []
  const own = [...ofProcesses, ...ofLines, ...nodes]
  return [...own, ...ofStore(s3), ...ofBackends(toBackends), ...state.faults]
}

const ofProcesses: readonly Fault[] = [
  ofGateway('a gateway is killed', 2000, async (place, { ms }) => {
    await place.kill()
    await pause(ms)
    await place.start()
  }),
  {
    ...ofGateway('a worker is killed', 500, async (place, { ms }) => {
      await place.killWorker()
      await pause(ms)
      await until(async () => (await place.pids()).length > place.workers, 60_000)
    }),
    suits: ({ workers }) => workers > 1,
  },
  ofGateway('a gateway is restarted', 500, async (place, { ms }) => {
    const code = await place.stop()
    if (code !== 0) throw new Error(`${place.name} ended with ${code}`)
    await pause(ms)
    await place.start()
  }),
  ofGateway('a gateway is frozen', 2 * leaseMs, async (place, { ms }) =>
    signalled(await place.pids(), ms),
  ),
  ofGateway("a gateway's disk is full", 4000, async (place, { ms }) => {
    await place.fill('disk')
    await pause(ms)
    await place.free()
  }),
  ofGateway("the disk of a gateway's log is full", 4000, async (place, { ms }) => {
    await place.fill('log')
    await pause(ms)
    await place.free()
    const size = await place.logSize()
    // Each request is a line.
    await until(async () => (await place.logSize()) > size, 60_000)
  }),
]

const ofLines: readonly Fault[] = [
  ofGateway("a gateway's line to Redis is cut", 100, async ({ toRedis }, { ms }) => {
    for (const line of toRedis) line.cut()
    await pause(ms)
  }),
  ofGateway("a gateway's line to Redis hangs", 2 * leaseMs, async ({ toRedis }, { ms }) => {
    await Promise.all(toRedis.map((line) => hanging(line, ms)))
  }),
  ofGateway("a gateway's line to Redis is slow", 5000, async ({ toRedis }, { ms, random }) => {
    const delayMs = 20 + random(300)
    for (const line of toRedis) line.setDelay(delayMs)
    await pause(ms)
    for (const line of toRedis) line.setDelay(0)
  }),
  ofGateway("a gateway's line to S3 is closed", 4000, ({ toStore }, { ms }) => closed(toStore, ms)),
]

/** Where there is more than one. */
const ofNodes: readonly Fault[] = [
  ofGateway("a gateway's line to one node is closed", 4000, ({ toRedis }, { ms, random }) =>
    closed(oneOf(toRedis, random), ms),
  ),
  ofGateway("a gateway's line to one node hangs", 2 * leaseMs, ({ toRedis }, { ms, random }) =>
    hanging(oneOf(toRedis, random), ms),
  ),
]

async function closed(line: Line, ms: number): Promise<void> {
  line.close()
  await pause(ms)
  line.open()
}

async function hanging(line: Line, ms: number): Promise<void> {
  line.stall()
  await pause(ms)
  line.resume()
}

const ofStore = (s3: World['s3']): readonly Fault[] => [
  {
    name: 'S3 is killed',
    touches: 'store',
    atMost: 2000,
    async run({ ms }) {
      await s3.kill()
      await pause(ms)
      await s3.restart()
    },
  },
  {
    name: 'S3 is frozen',
    touches: 'store',
    atMost: 4000,
    run: ({ ms }) => signalled([s3.pid], ms),
  },
]

const ofBackends = (lines: readonly Line[]): readonly Fault[] => [
  {
    name: 'a backend is killed',
    touches: 'backend',
    atMost: 2000,
    run: ({ ms, random }) => closed(oneOf(lines, random), ms),
  },
  {
    name: 'all backends are killed',
    touches: 'backend',
    atMost: 2000,
    async run({ ms }) {
      await Promise.all(lines.map((line) => closed(line, ms)))
    },
  },
  {
    name: 'a backend hangs',
    touches: 'backend',
    atMost: 6000,
    run: ({ ms, random }) => hanging(oneOf(lines, random), ms),
  },
]
