// `npm run bench`: nginx, Portkey's gateway and this one in front of the same backend, in turn on the same core. Writes
// bench/results.md. `--quick` takes a minute and proves nothing; `--long` adds ten minutes of streams.
// What it started is gone when it ends, also on Ctrl-C.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { closeBooks, readLife } from './books.ts'
import { startNginx, startPortkey, startTollgate } from './contestants.ts'
import type { Contestant, Name, Tollgate } from './contestants.ts'
import { folder, run, say, startBench } from './ground.ts'
import { counts, eventCost, firstBytes, longStreams, memory, requestCost } from './measures.ts'
import type { Bench } from './measures.ts'
import { cpuSeconds, machineSeconds, rememberEnded } from './processes.ts'
import { toMarkdown } from './report.ts'
import type { Results } from './report.ts'

const { values: flags } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    long: { type: 'boolean', default: false },
    /** A folder that gets a CPU profile of the gateway. Costs are too high in such a run. */
    profile: { type: 'string' },
  },
})

const plan = flags.quick
  ? { rounds: 2, warmUpMs: 1500, roundMs: 1500, calmMs: 2000, idleMs: 1000, longSeconds: 6 }
  : { rounds: 4, warmUpMs: 10_000, roundMs: 6000, calmMs: 12_000, idleMs: 6000, longSeconds: 90 }

/** The hard limit of open files. Node sets its own limit to it at start, and the children inherit that. */
function openFiles(): number {
  const text = readFileSync('/proc/self/limits', 'latin1')
  return Number(/Max open files +(\d+)/.exec(text)?.[1] ?? 1024)
}

type Measure<T> = (one: Contestant, ms: number) => Promise<T>

/** One warm-up for each contestant, then rounds in turn. */
async function inRounds<T>(
  all: readonly Contestant<Name>[],
  what: string,
  { measure, ms }: { readonly measure: Measure<T>; readonly ms: number },
): Promise<Record<Name, T[]>> {
  const found: Record<Name, T[]> = { nginx: [], Portkey: [], Tollgate: [] }
  for (const one of all) {
    say(`${what}: warming up ${one.name}`)
    await measure(one, plan.warmUpMs)
  }
  for (let round = 1; round <= plan.rounds; round++) {
    say(`${what}: round ${round} of ${plan.rounds}`)
    for (const one of all) found[one.name].push(await measure(one, ms))
  }
  return found
}

async function longRun(bench: Bench, gateway: Contestant): Promise<Results['longRun']> {
  const seconds = flags.long ? 600 : plan.longSeconds
  say(`long streams: ${seconds} s`)
  const samples = await longStreams(bench, gateway, seconds)
  const mean = (from: number, to: number) => {
    const part = samples.slice(from, to)
    return part.reduce((sum, one) => sum + one, 0) / part.length
  }
  if (flags.long)
    return { first: mean(120, 180), last: mean(480, 600), span: 'minutes 8–10 to minutes 2–3' }
  const third = Math.floor(seconds / 3)
  const span = `last third of ${seconds} s to the first (a short run; \`--long\` takes 10 minutes)`
  return { first: mean(0, third), last: mean(seconds - third, seconds), span }
}

async function measureAll(
  bench: Bench,
  all: readonly Contestant<Name>[],
  gateway: Tollgate,
  files: number,
) {
  const { roundMs, calmMs, idleMs, warmUpMs } = plan
  const requests = await inRounds(all, 'requests', {
    measure: (one, ms) => requestCost(bench, one, { ms }),
    ms: roundMs,
  })
  const eventMicros = await inRounds(all, 'events', {
    measure: (one, ms) => eventCost(bench, one, ms),
    ms: roundMs,
  })
  const firstByteMs = await inRounds(all, 'first bytes', {
    measure: (one, ms) => firstBytes(bench, one, ms),
    ms: calmMs,
  })
  const long = await longRun(bench, gateway)
  const lives = [await readLife(gateway)]
  const most = flags.quick ? 2000 : Math.min(9000, Math.floor((files - 1000) / 2))
  const found: Partial<Record<Name, Results['memory'][Name]>> = {}
  for (const one of all) {
    say(`memory: ${one.name}, up to ${most} streams`)
    rememberEnded(one.pids()) // The measure starts the process again, and its CPU time would be lost.
    found[one.name] = await memory(bench, one, { steps: [1000, most], warmUpMs, settleMs: idleMs })
  }
  lives.push(await readLife(gateway))
  return {
    requests,
    eventMicros,
    firstByteMs,
    longRun: long,
    memory: found as Results['memory'],
    lives,
  }
}

async function main(): Promise<void> {
  const startedAt = performance.now()
  const { bench, backendPort } = await startBench()
  const ground = { folder, backendPort, files: openFiles() }
  const gateway = await startTollgate(ground, bench.redis, flags.profile)
  const all = [await startNginx(ground), await startPortkey(ground), gateway]
  const before = machineSeconds()
  const own = () => {
    const { backend, load, redis } = bench
    return cpuSeconds([
      process.pid,
      backend.pid ?? 0,
      load.pid ?? 0,
      redis.pid,
      ...all.flatMap((one) => one.pids()),
    ])
  }
  const ownBefore = own()
  const { lives, ...measured } = await measureAll(bench, all, gateway, ground.files)
  const after = machineSeconds()
  const foreign =
    (after.busy - before.busy - (own() - ownBefore + rememberEnded([]))) / (after.all - before.all)
  const { requests } = await counts(bench)
  const elsewhere = (bench.answered.get('nginx') ?? 0) + (bench.answered.get('Portkey') ?? 0)
  const answered = bench.answered.get('Tollgate') ?? 0
  const books = await closeBooks(gateway, lives, { answered, backend: requests - elsewhere })
  const mode = flags.quick
    ? 'quick: a smoke check, no measurement'
    : flags.long
      ? 'long'
      : 'default'
  const text = toMarkdown({
    ...measured,
    mode,
    tookMinutes: (performance.now() - startedAt) / 60_000,
    redisVersion: bench.redis.version,
    foreign: Math.max(0, foreign),
    books,
  })
  process.stdout.write(text)
  // The result of a smoke check must not replace measurements.
  if (!flags.quick && !flags.profile) writeFileSync(join(import.meta.dirname, 'results.md'), text)
  await gateway.stop()
  process.exitCode = books.isEven ? 0 : 1
}

await run(main)
