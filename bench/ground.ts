// The processes that every contestant is measured with: backend, load generator and Redis.

import { join } from 'node:path'
import type { BackendCounts } from './backend.ts'
import type { Bench } from './measures.ts'
import { otherCores, start } from './processes.ts'
import { startRedis } from './redis.ts'

export async function startBench(
  folder: string,
): Promise<{ readonly bench: Bench; readonly backendPort: number }> {
  const node = (script: string) =>
    start([process.execPath, join(import.meta.dirname, script)], { core: otherCores, ipc: true })
  const backend = node('backend.ts')
  const { port } = await new Promise<BackendCounts>((resolve) =>
    backend.once('message', (counts) => resolve(counts as BackendCounts)),
  )
  const bench = {
    backend,
    load: node('load.ts'),
    redis: await startRedis(folder),
    answered: new Map(),
  }
  return { bench, backendPort: port }
}
