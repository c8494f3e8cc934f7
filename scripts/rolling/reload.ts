// Operators who change a gateway.yaml each second: all gateways at once, each time another configuration of the same money.

import { setTimeout as pause } from 'node:timers/promises'
import type { OwnProcess } from '../../test/fixtures/gateway.ts'

export interface ReloadOptions {
  readonly times: number
  /** The gateway.yaml of each time. */
  readonly yaml: (time: number) => string
}

export interface Reloaded {
  /** What was not taken over, or changed nothing. */
  readonly faults: readonly string[]
  readonly count: number
  /** Of one gateway: the middle and the longest. */
  readonly ms: readonly [number, number]
}

/** Begins one each second, or as soon as the one before has ended. */
export async function reloadEachSecond(
  gateways: readonly OwnProcess[],
  { times, yaml }: ReloadOptions,
): Promise<Reloaded> {
  const faults: string[] = []
  const took: number[] = []
  const startedAt = performance.now()
  for (let time = 1; time <= times; time++) {
    const early = startedAt + 1000 * time - performance.now()
    if (early > 0) await pause(early)
    const asked = gateways.map(async (gateway) => {
      await gateway.rewrite(yaml(time))
      const from = performance.now()
      const answer = await gateway.admin('POST', 'reload')
      const text = await answer.text()
      took.push(performance.now() - from)
      if (answer.status !== 200) faults.push(`reload ${time}: ${answer.status} ${text}`)
      else if (!hasChanged(text)) faults.push(`reload ${time} has changed nothing: ${text}`)
    })
    await Promise.all(asked)
  }
  const sorted = took.toSorted((a, b) => a - b)
  const ms = [sorted[Math.floor(sorted.length / 2)] ?? 0, sorted.at(-1) ?? 0] as const
  return { faults, count: took.length, ms }
}

function hasChanged(text: string): boolean {
  const { changes } = JSON.parse(text) as { changes: readonly unknown[] }
  return changes.length > 0
}
