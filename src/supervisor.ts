// A gateway of several processes: this process has what exists only once (the data folder, the embedded Redis, the
// admin port), and keeps workers that serve clients. Without workers none of this is loaded.

import cluster from 'node:cluster'
import { flushCompileCache } from 'node:module'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import { setTimeout as wait } from 'node:timers/promises'
import type { Config, Listen } from './config/config.ts'
import type { FileContents } from './config/read-files.ts'
import { fixedOf } from './config/restart.ts'
import { GatewayError, hasCode } from './errors.ts'
import { startGateway } from './gateway.ts'
import type { GatewayOptions, RunningGateway } from './gateway.ts'
import { formatProblem } from './config/problem.ts'
import type { Problem } from './config/problem.ts'
import { ensureFree } from './listeners/port.ts'
import { soon } from './sharing/patience.ts'
import { collectStartGarbage } from './start-garbage.ts'
import { NoAnswer } from './workers/channel.ts'
import { Counts } from './workers/counts.ts'
import { Fleet } from './workers/fleet.ts'
import type { FleetMember } from './workers/fleet.ts'
import { joinReports } from './workers/join-reports.ts'
import type { Condition, TargetReport, Workers } from './plugin.ts'
import type { WorkersReload } from './reload.ts'

export interface SupervisorOptions extends GatewayOptions {
  readonly file: string
  /** The files that the configuration was made of. */
  readonly contents: FileContents
  readonly format: 'json' | 'pretty'
}

export interface Supervisor extends RunningGateway {
  /** Where clients connect. */
  readonly publicAddress: string
}

/** How long a worker may take to read a configuration and set up its plugins. */
const reloadMs = 20_000
/** How long a reload waits for workers that are starting with the old files. */
const startingMs = 5000
/** How long a worker may take to say how it is. */
const answerMs = 2000
/** How often the supervisor notes what the workers have counted. */
const noteEveryMs = 5000
/** How long the workers may settle and close after `drain`. The last streams, a reload that hangs, the plugins and the ledger may take 5 s each; the rest is for a slow machine. */
const settlingMs = 30_000

export async function startSupervisor(
  config: Config,
  { file, contents, format, ...options }: SupervisorOptions,
): Promise<Supervisor> {
  const { log } = options
  const { workers: count } = config
  const files = { current: contents }
  const counts = new Counts()
  const opened: { gateway?: RunningGateway } = {}
  const fleet = new Fleet({
    count,
    log,
    taskOf(number, port) {
      if (!opened.gateway) throw new Error('a worker cannot start before its supervisor')
      const { redisSocket, current } = opened.gateway
      const { effective, marks, config: now } = current
      const running = { effective, marks, fixed: fixedOf(now) }
      return { number, count, file, port, format, redisSocket, contents: files.current, running }
    },
    onEnded: (member) => void counts.keep(member),
  })
  const workers = workersOf(fleet, { count, counts, files })
  await using undo = new AsyncDisposableStack()
  await awaitFreePort(config.listen)
  const gateway = await startGateway(config, { ...options, role: { is: 'supervisor', workers } })
  const { close } = gateway
  undo.defer(() => close())
  opened.gateway = gateway
  const noting = setInterval(() => void counts.read(fleet), noteEveryMs).unref()
  undo.defer(() => clearInterval(noting))
  cluster.setupPrimary({
    exec: fileURLToPath(new URL('tollgate.cjs', import.meta.url)),
    args: ['start', '--config', file],
    // A worker's log comes on stdout, which `Fleet` forwards in whole lines. Its stderr goes out as it is.
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    serialization: 'advanced',
  })
  undo.defer(() => {
    const { drainMs, shutdownDelayMs } = gateway.current.config
    return fleet.stop(shutdownDelayMs + drainMs + settlingMs)
  })
  // The workers find what this process has compiled. Otherwise each would need Node's TypeScript compiler, which takes
  // 18 MB.
  await import('./worker.ts')
  flushCompileCache()
  collectStartGarbage()
  await fleet.start()
  const closing = undo.move()
  return Object.assign(gateway, {
    publicAddress: fleet.address,
    async close() {
      gateway.state.draining = true
      await closing.disposeAsync()
    },
  })
}

interface WorkersParts {
  readonly count: number
  readonly counts: Counts
  /** What a worker that starts now is given. */
  readonly files: { current: FileContents }
}

/** The workers, for the gateway of this process. */
function workersOf(fleet: Fleet, { count, counts, files }: WorkersParts): Workers & WorkersReload {
  let prepared: readonly FleetMember[] = []
  return {
    count,
    async conditions() {
      const told = await fleet.askAll('condition', answerMs)
      return told.filter(Boolean) as readonly Condition[]
    },
    async targets() {
      const reports = await fleet.askAll('targets', answerMs)
      return joinReports(reports.flatMap((one) => one as readonly TargetReport[]))
    },
    metrics: (own, format) => counts.text(fleet, { own, format }),
    async prepare(contents) {
      prepared = await prepareAll(fleet, contents)
    },
    async commit(contents) {
      files.current = contents
      await commitAll(fleet, prepared, contents)
    },
    drop: () => void fleet.askAll('drop'),
  }
}

/** Resolves with the workers that can take the configuration, also those that begin to serve meanwhile. */
async function prepareAll(fleet: Fleet, contents: FileContents): Promise<readonly FleetMember[]> {
  const asked = new Set<FleetMember>()
  // The commit would end workers that are still starting: if reloads follow each other quickly, they would never serve.
  const starting = fleet.members.filter((member) => isOutdated(member, contents))
  await soon(Promise.allSettled(starting.map(({ started }) => started)), startingMs)
  for (;;) {
    const others = fleet.serving.filter((member) => !asked.has(member))
    if (others.length === 0) return [...asked]
    for (const member of others) asked.add(member)
    const answers = others.map((member) => prepareOne(member, contents))
    // Waits for all: a worker that still prepares a configuration could not drop it.
    await Promise.allSettled(answers)
    const problems = (await Promise.all(answers)).find((one) => one.length > 0)
    if (!problems) continue
    const message = problems.map(formatProblem).join('\n')
    throw new GatewayError('invalid_configuration', { message, problems })
  }
}

/**
 * A worker that dies meanwhile is no fault of the configuration. One that hangs is ended. If one only takes too long,
 * the reload fails.
 */
async function prepareOne(
  { channel, worker }: FleetMember,
  contents: FileContents,
): Promise<readonly Problem[]> {
  try {
    return (await channel.ask('prepare', contents, reloadMs)) as readonly Problem[]
  } catch (error) {
    if (!worker.process.connected) return []
    const hangs = () => channel.ask('condition', undefined, answerMs).then(() => false, isNoAnswer)
    if (!isNoAnswer(error) || !(await hangs())) throw error
    worker.process.kill('SIGKILL')
    return []
  }
}

const isNoAnswer = (error: unknown): boolean => error instanceof NoAnswer

function isOutdated({ startedWith }: FleetMember, contents: FileContents): boolean {
  return !isDeepStrictEqual(startedWith, contents)
}

/**
 * Tells the workers that have prepared to take the configuration over. Ends those that do not answer, and those that
 * were still starting, with the old files, when the others were asked to prepare: their successors start with the new
 * files.
 */
async function commitAll(
  fleet: Fleet,
  prepared: readonly FleetMember[],
  contents: FileContents,
): Promise<void> {
  const asked = fleet.members.map(async (member) => {
    const end = () => member.worker.process.kill('SIGKILL')
    if (prepared.includes(member)) {
      await member.channel.ask('commit', undefined, reloadMs).catch(end)
    } else if (isOutdated(member, contents)) end()
  })
  await Promise.all(asked)
}

/** How long the workers of a killed supervisor may take to leave the port. */
const leavingMs = 10_000
const lookMs = 100

async function awaitFreePort({ host, port }: Listen): Promise<void> {
  const until = performance.now() + leavingMs
  for (;;) {
    try {
      return await ensureFree(host, port)
    } catch (error) {
      if (!hasCode(error, 'EADDRINUSE') || performance.now() > until) throw error
      await wait(lookMs)
    }
  }
}
