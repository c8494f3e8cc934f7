// What every benchmark stands on: a folder, the processes that a contestant is measured with, and the end of it all.

import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BackendCounts } from './backend.ts'
import type { Bench } from './measures.ts'
import { otherCores, start, stopAll } from './processes.ts'
import { startRedis } from './redis.ts'

/** Of this run alone; it is gone when the run ends. */
export const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'))

export const say = (text: string) => void process.stderr.write(`${text}\n`)

/** Runs the benchmark. Then, and on Ctrl-C, ends all that it has started, and this process. `end` ends what is no child. */
export async function run(main: () => Promise<unknown>, end?: () => Promise<void>): Promise<never> {
  const cleanUp = async () => {
    await stopAll()
    await end?.()
    rmSync(folder, { recursive: true, force: true })
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void cleanUp().finally(() => process.exit(130)))
  }
  try {
    await main()
  } finally {
    await cleanUp()
  }
  process.exit()
}

/** A script of this folder that takes orders. */
export function startScript(script: string, core = otherCores): ChildProcess {
  return start([process.execPath, join(import.meta.dirname, script)], { core, ipc: true })
}

/** Backend, load generator and Redis. */
export async function startBench(): Promise<{
  readonly bench: Bench
  readonly backendPort: number
}> {
  const backend = startScript('backend.ts')
  const { port } = await new Promise<BackendCounts>((resolve) =>
    backend.once('message', (counts) => resolve(counts as BackendCounts)),
  )
  const load = startScript('load.ts')
  const bench = { backend, load, redis: await startRedis(folder), answered: new Map() }
  return { bench, backendPort: port }
}
