// What is measured: one function for each measure, for one contestant and one round. Everything is counted from
// outside: by the kernel, by Redis, by the backend and by the load generator, never by the proxy itself.

import type { ChildProcess } from 'node:child_process'
import { setTimeout as wait } from 'node:timers/promises'
import type { BackendCounts, BackendOrder } from './backend.ts'
import type { Contestant } from './contestants.ts'
import type { LoadOrder, LoadReport } from './load.ts'
import { ask, cpuSeconds, rssBytes } from './processes.ts'
import type { Redis } from './redis.ts'

export interface Bench {
  readonly backend: ChildProcess
  readonly load: ChildProcess
  readonly redis: Redis
  /** Requests that were answered completely, by contestant. */
  readonly answered: Map<string, number>
}

export interface RequestCost {
  readonly cpuMicros: number
  readonly redisMicros: number
  readonly perSecond: number
  /** The share of time in which the proxy's core was busy. */
  readonly busy: number
  readonly scripts: number
  readonly redisCommands: number
}

const inFlight = 32

export interface Closed {
  readonly ms: number
  readonly connections?: number
  readonly perSecond?: number
}

export async function requestCost(
  bench: Bench,
  one: Contestant,
  { ms, connections = inFlight, perSecond }: Closed,
): Promise<RequestCost> {
  const before = await reading(bench, one)
  const { aim } = one
  const { requests, ms: took } = await drive(bench, one, {
    kind: 'closed',
    aim,
    connections,
    ms,
    perSecond,
  })
  const after = await reading(bench, one)
  const cpu = after.cpu - before.cpu
  return {
    cpuMicros: (cpu * 1e6) / requests,
    redisMicros: ((after.redisCpu - before.redisCpu) * 1e6) / requests,
    perSecond: (requests * 1000) / took,
    busy: (cpu * 1000) / took,
    scripts: (after.scripts - before.scripts) / requests,
    redisCommands: (after.all - before.all) / requests,
  }
}

const pacedStreams = 100
const everyMs = 20

/** CPU of one event of a stream, when events are written one by one: 100 streams at 50 events a second each. */
export async function eventCost(bench: Bench, one: Contestant, ms: number): Promise<number> {
  const [[cost = Number.NaN] = []] = await eventCosts(bench, [one], { turns: 1, ms })
  return cost
}

/** The same for several at once, each with its own streams: for each of them, one cost for each turn of `ms`. */
export async function eventCosts(
  bench: Bench,
  all: readonly Contestant[],
  { turns, ms }: { readonly turns: number; readonly ms: number },
): Promise<readonly (readonly number[])[]> {
  for (const one of all) {
    await openStreams(bench, one, { streams: pacedStreams, perSecond: 200, everyMs })
  }
  await wait(1000)
  const found = all.map((): number[] => [])
  let before = await eventReading(bench, all)
  for (let turn = 0; turn < turns; turn++) {
    await wait(ms)
    const after = await eventReading(bench, all)
    const events = (after.events - before.events) / all.length
    for (const [i, costs] of found.entries()) {
      costs.push((((after.cpu[i] ?? 0) - (before.cpu[i] ?? 0)) * 1e6) / events)
    }
    before = after
  }
  // The backend ends the streams of all at once.
  for (const one of all.slice(0, 1)) await endStreams(bench, one)
  return found
}

async function eventReading(bench: Bench, all: readonly Contestant[]) {
  const cpu = all.map((one) => cpuSeconds(one.pids()))
  return { cpu, events: (await counts(bench)).events }
}

const calmRate = 50

/** ms from the request to the first byte of a stream's body, one number a stream; 50 streams a second, each 100 ms long. */
export async function firstBytes(
  bench: Bench,
  one: Contestant,
  ms: number,
): Promise<readonly number[]> {
  const { aim } = one
  const order = { kind: 'paced', aim, perSecond: calmRate, ms, user: 'e5/20' } as const
  return (await drive(bench, one, order)).firstByteMs
}

export interface Memory {
  readonly streams: number
  readonly rssMiB: number
  readonly kbAStream: number
}

/** Memory of a fresh process that plain requests have warmed up: first with some streams, then with more. */
export async function memory(
  bench: Bench,
  one: Contestant,
  { steps, warmUpMs, settleMs }: { steps: readonly number[]; warmUpMs: number; settleMs: number },
): Promise<readonly Memory[]> {
  await one.restart()
  await drive(bench, one, { kind: 'closed', aim: one.aim, connections: inFlight, ms: warmUpMs })
  await wait(settleMs)
  const empty = rssBytes(one.pids())
  const found: Memory[] = []
  let open = 0
  for (const streams of steps) {
    await openStreams(bench, one, { streams: streams - open, perSecond: 500, everyMs: 2000 })
    open = streams
    await wait(settleMs)
    const rss = rssBytes(one.pids())
    found.push({ streams, rssMiB: rss / 2 ** 20, kbAStream: (rss - empty) / 1024 / streams })
  }
  await endStreams(bench, one)
  return found
}

/** RSS in MiB, once a second, while 50 streams run at 100 events a second each. */
export async function longStreams(
  bench: Bench,
  one: Contestant,
  seconds: number,
): Promise<readonly number[]> {
  await openStreams(bench, one, { streams: 50, perSecond: 100, everyMs: 10 })
  const samples: number[] = []
  for (let n = 0; n < seconds; n++) {
    await wait(1000)
    samples.push(rssBytes(one.pids()) / 2 ** 20)
  }
  await endStreams(bench, one)
  return samples
}

interface Opening {
  readonly streams: number
  readonly perSecond: number
  readonly everyMs: number
}

/** The streams do not end by themselves; endStreams makes the backend end them all properly. */
async function openStreams(bench: Bench, one: Contestant, opening: Opening): Promise<void> {
  const { streams, perSecond, everyMs } = opening
  const user = `e900000000/${everyMs}`
  await drive(bench, one, { kind: 'open', aim: one.aim, streams, perSecond, user })
}

async function endStreams(bench: Bench, one: Contestant): Promise<void> {
  await ask<BackendCounts>(bench.backend, 'finish' satisfies BackendOrder)
  await drive(bench, one, { kind: 'ended' })
}

export function counts({ backend }: Bench): Promise<BackendCounts> {
  return ask<BackendCounts>(backend, 'counts' satisfies BackendOrder)
}

async function drive(bench: Bench, one: Contestant, order: LoadOrder): Promise<LoadReport> {
  const report = await ask<LoadReport>(bench.load, order)
  if (report.failures > 0) {
    throw new Error(`${one.name}: ${report.failures} failures (${order.kind}): ${report.failure}`)
  }
  bench.answered.set(one.name, (bench.answered.get(one.name) ?? 0) + report.requests)
  return report
}

async function reading({ redis }: Bench, one: Contestant) {
  const commands = await redis.commands()
  return { cpu: cpuSeconds(one.pids()), redisCpu: cpuSeconds([redis.pid]), ...commands }
}
