// What a request costs Redis in instructions. Under load, the time differs by a tenth from one run to the next, and the
// number of instructions by less than a hundredth. Redis runs in Valgrind, once for few requests and once for many: the
// difference is what the further ones cost.

import { execFile } from 'node:child_process'
import { mkdtemp, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { startRedis } from './redis.ts'
import type { Redis } from './redis.ts'

const few = 5
const many = 25

/** Resolves with undefined when there is no Valgrind. `send` gets a folder of its own, and sends so many rounds of `each` requests. */
export async function instructionsOf(
  folder: string,
  each: number,
  send: (redis: Redis, folder: string, rounds: number) => Promise<void>,
): Promise<number | undefined> {
  try {
    await promisify(execFile)('valgrind', ['--version'])
  } catch {
    return undefined
  }
  const count = async (rounds: number) => {
    const own = await mkdtemp(join(folder, 'counted-'))
    const log = join(own, 'valgrind.log')
    const files = [`--log-file=${log}`, `--callgrind-out-file=${join(own, 'callgrind.out')}`]
    const redis = await startRedis(own, ['valgrind', '--tool=callgrind', ...files])
    await send(redis, own, rounds)
    await redis.stop()
    const found = /Collected : (\d+)/.exec(await readFile(log, 'utf8'))
    if (!found) throw new Error('Valgrind has counted nothing')
    return Number(found[1])
  }
  return ((await count(many)) - (await count(few))) / ((many - few) * each)
}
