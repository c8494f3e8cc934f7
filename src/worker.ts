// One of several processes that serve clients. It has its configuration from the supervisor, and all that exists only once:
// the data folder, the embedded Redis, the number of the port.
// When the supervisor has gone, it ends, too.

import cluster from 'node:cluster'
import { exit } from './cli/command.ts'
import type { Io } from './cli/command.ts'
import { version } from './cli/help.ts'
import type { Config } from './config/config.ts'
import { withoutRestart } from './config/diff.ts'
import type { Shown } from './config/diff.ts'
import { formatProblem } from './config/problem.ts'
import type { FileContents } from './config/read-files.ts'
import { withRunning } from './config/restart.ts'
import { configOfWorker } from './config/workers.ts'
import { GatewayError, messageOf } from './errors.ts'
import { startGateway } from './gateway.ts'
import type { RunningGateway } from './gateway.ts'
import { loadFile } from './load-file.ts'
import { createLog } from './log.ts'
import type { PreparedReload } from './reload.ts'
import { secretsOf } from './secrets.ts'
import { collectStartGarbage } from './start-garbage.ts'
import { conditionOf, measureTargets, reportTargets } from './upkeep.ts'
import { Channel, taskVariable } from './workers/channel.ts'
import type { ListenedAt, WorkerTask } from './workers/channel.ts'

/** Resolves with the exit code after the drain. */
export async function runWorker(io: Io): Promise<number> {
  if (!process.connected) {
    io.stderr.write(`tollgate: ${taskVariable} is set, and the supervisor has gone\n`)
    return exit.failed
  }
  // Otherwise Node would end the process as soon as the supervisor has gone, before anything is settled.
  if (cluster.worker) cluster.worker.exitedAfterDisconnect = true
  // SIGHUP is meant for the supervisor. It comes here, too, when it is sent to all processes of a group.
  process.on('SIGHUP', () => undefined)
  const ending = Promise.withResolvers<void>()
  io.signal?.addEventListener('abort', () => ending.resolve())
  const orphaned = new AbortController()
  orphaned.signal.addEventListener('abort', () => ending.resolve())
  process.once('disconnect', () => orphaned.abort())
  const serving: WorkerState = {
    gateway: undefined,
    given: new Map(),
    preparing: undefined,
    prepared: undefined,
  }
  const channel = new Channel(
    process,
    answerers(serving, () => ending.resolve()),
  )
  const task = (await channel.ask('task')) as WorkerTask
  const { file, format, number, port, redisSocket } = task
  serving.given = task.contents
  const load = async () => {
    const loaded = await loadFile(file, io, { given: serving.given, running: task.count })
    if ('problems' in loaded) return loaded
    return { ...loaded, config: configOfWorker(loaded.config, task) }
  }
  const loaded = await load()
  await using keeping = new AsyncDisposableStack()
  let masked = (text: string) => text
  try {
    if ('problems' in loaded) throw new Error(loaded.problems.map(formatProblem).join('\n'))
    const first = asRunning(loaded, task)
    const { level } = first.config.log
    const secrets = secretsOf(first.config)
    const log = createLog({ level, format, secrets, worker: number })
    masked = (text) => log.masked(text)
    keeping.defer(() => log.close())
    const role = { is: 'worker', port, redisSocket } as const
    collectStartGarbage()
    const options = { ...first, log, load, version: version(), role }
    const gateway = await startGateway(first.config, options)
    serving.gateway = gateway
    const { address, port: listened } = gateway.listeners.public
    const place = { address, port: listened } satisfies ListenedAt
    // If the supervisor does not answer this, it does not know this process, and nobody would ever end it.
    await channel.ask('ready', place).catch(() => orphaned.abort())
    await ending.promise
    await gateway.close(orphaned.signal)
    if (process.connected) await channel.ask('ended', await gateway.metrics.json())
    return exit.ok
  } catch (error) {
    // The supervisor prints it, and may no longer know the secrets of a configuration that a stream here has used until now.
    await channel.ask('failed', masked(messageOf(error))).catch(() => undefined)
    return exit.failed
  } finally {
    if (process.connected) process.disconnect?.()
  }
}

/** Keys whose change needs a restart get the values that the other workers run with. */
function asRunning<T extends Shown & { readonly config: Config }>(
  loaded: T,
  { running }: WorkerTask,
): T {
  const config = withRunning(loaded.config, running.fixed)
  return { ...loaded, ...withoutRestart(running, loaded), config }
}

interface WorkerState {
  gateway: RunningGateway | undefined
  /** What the supervisor has read. */
  given: FileContents
  /** The reload that is being prepared, or is prepared. */
  preparing: Promise<PreparedReload> | undefined
  prepared: PreparedReload | undefined
}

function answerers(serving: WorkerState, drain: () => void) {
  return {
    drain,
    condition: () => serving.gateway && conditionOf(serving.gateway.current),
    metrics() {
      if (serving.gateway) measureTargets(serving.gateway.current)
      return serving.gateway?.metrics.json()
    },
    targets: () => (serving.gateway ? reportTargets(serving.gateway.current) : []),
    async prepare(contents: unknown) {
      if (!serving.gateway) throw new Error('it does not serve yet')
      serving.given = contents as FileContents
      const preparing = (serving.preparing = serving.gateway.prepareReload())
      try {
        const prepared = await preparing
        if (serving.preparing === preparing) serving.prepared = prepared
        // The supervisor no longer waits for this reload.
        else prepared.drop()
        return []
      } catch (error) {
        if (error instanceof GatewayError && error.problems) return error.problems
        throw error
      }
    },
    commit() {
      serving.prepared?.commit()
      serving.prepared = undefined
    },
    drop() {
      serving.preparing = undefined
      serving.prepared?.drop()
      serving.prepared = undefined
    },
  }
}
