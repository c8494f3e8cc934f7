// `npm run bench:workers`: what several workers cost beside one process: CPU of a request, in turn on the same core, and
// the memory of each process that has started and is idle. Writes bench/workers.md; `--memory` and `--requests` print one
// of both. Two processes on one core disturb each other's caches, with workers or without: so two
// gateways of one process each are measured beside the workers.

import type { ChildProcess } from 'node:child_process'
import { mkdirSync, mkdtempSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { startCommand } from '../scripts/start-command.ts'
import { startTollgate } from './contestants.ts'
import type { Contestant } from './contestants.ts'
import { folder, run, say, startBench, startScript } from './ground.ts'
import { counts, requestCost } from './measures.ts'
import type { Bench, Closed } from './measures.ts'
import { otherCores, rssBytes, start, stop, withChildren } from './processes.ts'
import { median } from './report.ts'

const { values: flags } = parseArgs({
  options: {
    rounds: { type: 'string', default: '4' },
    memory: { type: 'boolean', default: false },
    requests: { type: 'boolean', default: false },
  },
})
/** For each process that serves; all of them run on one core. */
const warmUpMs = 11_000
const roundMs = 6000
/** From one load generator for each process that serves: with less, or in other bursts, fewer requests share the cost of a turn of a loop. */
const load = { connections: 32, perSecond: 600 }
/** After this time, V8 has collected what the start left behind. */
const idleMs = 20_000

interface Ground {
  readonly bench: Bench
  readonly backendPort: number
  readonly loads: readonly ChildProcess[]
}

/** Of gateways that run at the same time, started for one measure: one process differs from the next by some per cent. */
async function costOf(
  ground: Ground,
  { count, workers }: { count: number; workers: number },
): Promise<number> {
  const { backendPort, bench, loads } = ground
  const more = `workers: ${workers}\n`
  const gateways = await Promise.all(
    Array.from({ length: count }, () => {
      const own = mkdtempSync(join(folder, 'round-'))
      return startTollgate({ folder: own, backendPort, files: 0, more }, bench.redis)
    }),
  )
  const measureOne = async (gateway: Contestant, at: number, order: Closed) => {
    const drivers = loads.slice(at * workers, (at + 1) * workers)
    const costs = await Promise.all(
      drivers.map((driver) => requestCost({ ...bench, load: driver }, gateway, order)),
    )
    // Each counts the CPU of the whole gateway, and its own requests only.
    return 1 / costs.reduce((sum, { cpuMicros }) => sum + 1 / cpuMicros, 0)
  }
  const measure = (order: Closed) =>
    Promise.all(gateways.map((gateway, at) => measureOne(gateway, at, order)))
  const { connections, perSecond } = load
  try {
    await measure({ ms: count * workers * warmUpMs, connections })
    return median(await measure({ ms: roundMs, connections, perSecond }))
  } finally {
    for (const gateway of gateways) await gateway.stop()
  }
}

const kinds = [
  { name: 'one process', count: 1, workers: 1 },
  { name: 'two gateways of one process each', count: 2, workers: 1 },
  { name: 'two workers, with their supervisor', count: 1, workers: 2 },
]

async function costs(): Promise<string> {
  const { bench, backendPort } = await startBench()
  const ground = { bench, backendPort, loads: [bench.load, startScript('load.ts')] }
  const found: number[][] = kinds.map(() => [])
  for (let round = 1; round <= Number(flags.rounds); round++) {
    for (const [at, { name, count, workers }] of kinds.entries()) {
      const micros = await costOf(ground, { count, workers })
      found[at]?.push(micros)
      say(`round ${round}: ${micros.toFixed(1)} µs, ${name}`)
    }
  }
  const { requests } = await counts(bench)
  if (requests !== bench.answered.get('Tollgate')) throw new Error('the backend saw other requests')
  const rows = kinds.map(({ name }, at) => {
    const all = found[at] ?? []
    const ratios = all.map((one, round) => one / (found[0]?.[round] ?? NaN))
    const [least, most] = [Math.min(...ratios), Math.max(...ratios)]
    return `| ${name} | ${median(all).toFixed(0)} | ${median(ratios).toFixed(2)} (${least.toFixed(2)} to ${most.toFixed(2)}) |`
  })
  return ['| | CPU µs a request | to one process |', '|---|---|---|', ...rows, ''].join('\n')
}

/** MiB of each process of a gateway of the file that `npm start` runs, with an embedded Redis. */
async function idleMemory(workers: number): Promise<readonly number[]> {
  const own = mkdtempSync(join(folder, 'idle-'))
  mkdirSync(join(own, 'data'))
  const text = readFileSync(resolve(import.meta.dirname, '../gateway.yaml'), 'utf8')
  const here = text.replace('listen: 8080', 'listen: 0').replace('127.0.0.1:9090', '127.0.0.1:0')
  const file = join(own, 'gateway.yaml')
  writeFileSync(file, `${here}\nworkers: ${workers}\n`)
  const log = join(own, 'log')
  const output = openSync(log, 'a')
  const child = start([...startCommand(), '--config', file], { core: otherCores, output })
  while (!readFileSync(log, 'utf8').includes('"listening"')) {
    if (child.exitCode !== null) throw new Error(readFileSync(log, 'utf8'))
    await wait(100)
  }
  await wait(idleMs)
  const isNode = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('/node\0')
  const found = withChildren(child.pid ?? 0).filter(isNode)
  const sizes = found.map((pid) => rssBytes([pid]) / 2 ** 20)
  await stop(child)
  return sizes
}

async function memory(): Promise<string> {
  // The first start fills Node's compile cache.
  await idleMemory(1)
  const [one = 0] = await idleMemory(1)
  const [supervisor = 0, ...workers] = await idleMemory(2)
  return [
    '| | MiB when idle |',
    '|---|---|',
    `| one process | ${one.toFixed(0)} |`,
    `| supervisor | ${supervisor.toFixed(0)} |`,
    `| worker | ${workers.map((mib) => mib.toFixed(0)).join(', ')} |`,
    '',
  ].join('\n')
}

async function main(): Promise<void> {
  if (flags.requests) return void process.stdout.write(await costs())
  const sizes = await memory()
  if (flags.memory) return void process.stdout.write(sizes)
  const head = `# Workers\n\nBy \`npm run bench:workers\`: medians of ${flags.rounds} rounds, a fresh gateway each, all its processes on one core,\n${load.perSecond} requests a second on ${load.connections} connections for each process that serves. Ratios are to be compared, not microseconds. The memory is what \`ps\` calls RSS, after ${idleMs / 1000} s without a request.\n`
  const text = [head, await costs(), sizes].join('\n')
  process.stdout.write(text)
  writeFileSync(join(import.meta.dirname, 'workers.md'), text)
}

await run(main)
