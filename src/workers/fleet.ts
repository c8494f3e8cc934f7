// The workers of a supervisor: started, started again when they end, asked, and drained together.

import cluster from 'node:cluster'
import type { Worker } from 'node:cluster'
import type { Readable } from 'node:stream'
import type { FileContents } from '../config/read-files.ts'
import type { Log } from '../log.ts'
import type { MetricsJson } from '../metrics.ts'
import { Channel, taskVariable } from './channel.ts'
import type { ListenedAt, WorkerTask } from './channel.ts'

export interface FleetOptions {
  readonly count: number
  readonly log: Log
  /** Made anew for each start, because the configuration may have changed. */
  readonly taskOf: (number: number, port: number | undefined) => WorkerTask
  /** Called when a worker has ended, with the last that it has said of its metrics. */
  readonly onEnded: (member: FleetMember) => void
}

export interface FleetMember {
  readonly number: number
  readonly channel: Channel
  readonly worker: Worker
  /** The files that it has started with. */
  readonly startedWith: FileContents
  /** Resolves when it serves; rejects when it ends before. */
  readonly started: Promise<void>
  /** Where it listens; set when it serves. */
  address: string | undefined
  /** As it last told them. */
  metrics: MetricsJson | undefined
  /** What it has said of its failure, if it has. */
  failure: Error | undefined
}

const firstPauseMs = 100
const lastPauseMs = 5000
/** A worker that lived this long has not failed at its start. */
const healthyMs = 30_000
/** The gateway does not start when one of its workers has failed this often. */
const mostFailures = 3

export class Fleet {
  readonly #options: FleetOptions
  readonly #members = new Map<number, FleetMember>()
  readonly #failures = new Map<number, number>()
  #address: string | undefined
  #port: number | undefined
  #isStopping = false
  readonly #pauses = new Set<NodeJS.Timeout>()

  constructor(options: FleetOptions) {
    this.#options = options
  }

  get members(): readonly FleetMember[] {
    return [...this.#members.values()]
  }

  /** Those that serve. */
  get serving(): readonly FleetMember[] {
    return this.members.filter(({ address }) => address !== undefined)
  }

  get address(): string {
    return this.#address ?? ''
  }

  /** Resolves when all serve; rejects when one can't be started. */
  async start(): Promise<void> {
    const { count } = this.#options
    // The first one tells which port the system has chosen for port 0.
    await this.#startFirst(1)
    const others = Array.from({ length: count - 1 }, (_, i) => this.#startFirst(i + 2))
    await Promise.all(others)
  }

  async #startFirst(number: number): Promise<void> {
    for (let failures = 1; ; failures++) {
      try {
        await this.#run(number)
        return
      } catch (error) {
        if (failures >= mostFailures || this.#isStopping) throw error
      }
    }
  }

  /** Resolves when it serves; rejects with what it said when it ended before. */
  async #run(number: number): Promise<void> {
    const { taskOf, log } = this.#options
    const task = taskOf(number, this.#port)
    const worker = cluster.fork({ [taskVariable]: '1' })
    const startedAt = performance.now()
    const ready = Promise.withResolvers<void>()
    const channel = new Channel(worker.process, {
      task: () => task,
      ready: (place) => {
        const { address, port } = place as ListenedAt
        member.address = address
        this.#address ??= address
        this.#port ??= port
        ready.resolve()
      },
      failed(why) {
        member.failure = new Error(`worker ${number}: ${String(why)}`)
        ready.reject(member.failure)
      },
      ended: (metrics) => void (member.metrics = metrics as MetricsJson),
    })
    const member: FleetMember = {
      number,
      channel,
      worker,
      startedWith: task.contents,
      started: ready.promise,
      address: undefined,
      metrics: undefined,
      failure: undefined,
    }
    this.#members.set(number, member)
    forwardLines(worker.process.stdout, log)
    // An error comes, for instance, when a worker is asked something while it ends.
    worker.on('error', () => undefined)
    worker.process.on('error', () => undefined)
    worker.process.once('exit', (code, signal) => {
      channel.close()
      // By now, another worker may have this number.
      if (this.#members.get(number) === member) this.#members.delete(number)
      this.#options.onEnded(member)
      const hasServed = member.address !== undefined
      ready.reject(new Error(`worker ${number} ended at its start (${signal ?? code})`))
      if (this.#isStopping || !hasServed) return
      log.error({ worker: number, code, signal }, 'a worker has ended: another one is started')
      const livedMs = performance.now() - startedAt
      this.#again(number, livedMs > healthyMs ? 0 : (this.#failures.get(number) ?? 0))
    })
    await ready.promise
  }

  #again(number: number, failures: number): void {
    if (this.#isStopping) return
    this.#failures.set(number, failures + 1)
    const pauseMs = Math.min(firstPauseMs * 2 ** failures, lastPauseMs)
    const pause = setTimeout(() => {
      this.#pauses.delete(pause)
      this.#run(number).catch((err: unknown) => {
        if (this.#isStopping) return
        this.#options.log.error({ err, worker: number }, 'a worker did not start')
        this.#again(number, failures + 1)
      })
    }, pauseMs)
    this.#pauses.add(pause)
  }

  /** The answers of those that answer. */
  async askAll(name: string, boundMs?: number): Promise<readonly unknown[]> {
    const asked = this.serving.map(({ channel }) => channel.ask(name, undefined, boundMs))
    const settled = await Promise.allSettled(asked)
    return settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  }

  /** All drain together; those that still live after `boundMs` are killed. Rejects when one does not end as it should. */
  async stop(boundMs: number): Promise<void> {
    this.#isStopping = true
    const { log } = this.#options
    for (const pause of this.#pauses) clearTimeout(pause)
    const ended = this.members.map(async (member) => {
      const { number, worker, channel } = member
      const exited = exitOf(worker)
      channel.ask('drain', undefined, boundMs).catch(() => undefined)
      const timer = setTimeout(() => worker.process.kill('SIGKILL'), boundMs)
      await exited
      clearTimeout(timer)
      const { exitCode: code, signalCode: signal } = worker.process
      // A worker that has never served has nothing to settle, so its exit code does not matter. A kill is reported all
      // the same.
      if (code === 0 || (member.address === undefined && signal === null)) return
      const how = `worker ${number} did not end as it should (${signal ?? code})`
      const err = member.failure ?? new Error(how)
      log.error({ err, worker: number, code, signal }, 'a worker did not end as it should')
      throw err
    })
    const settled = await Promise.allSettled(ended)
    const failures = settled.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
    if (failures.length > 0) throw new AggregateError(failures)
  }
}

/** Not `once` of node:events, which rejects when a worker that ends can't be asked any more. */
function exitOf({ process: child }: Worker): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve()
  return new Promise((resolve) => child.once('exit', () => resolve()))
}

/** Whole lines only: several processes write into one pipe. */
function forwardLines(out: Readable | null, log: Log): void {
  let rest = ''
  out?.setEncoding('utf8').on('data', (text: string) => {
    const end = text.lastIndexOf('\n') + 1
    if (end > 0) log.forward(rest + text.slice(0, end))
    rest = end > 0 ? text.slice(end) : rest + text
  })
}
