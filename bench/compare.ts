// `npm run bench:compare -- REV REV`: what a request and an event cost in two or more revisions or folders of the gateway, in
// turn on the same core. Every round starts each gateway anew, because one process differs from the next by several per
// cent; so only ratios to the first one in the same round are told, with their median. Each round begins with another one.

import { mkdirSync, mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startTollgate } from './contestants.ts'
import { folder as ownFolder, run, say, startBench } from './ground.ts'
import { eventCost, requestCost } from './measures.ts'
import type { Bench } from './measures.ts'
import { median } from './report.ts'
import { treeOf } from './trees.ts'

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: 'string', default: '5' } },
})
const warmUpMs = 11_000
const roundMs = 6000

interface Tree {
  readonly name: string
  readonly folder: string
}

interface Cost {
  readonly request: number
  readonly event: number
  readonly redis: number
  readonly commands: number
}

async function measure(bench: Bench, backendPort: number, tree: string): Promise<Cost> {
  const own = mkdtempSync(join(ownFolder, 'round-'))
  mkdirSync(join(own, 'data'))
  const gateway = await startTollgate({ folder: own, backendPort, files: 0, tree }, bench.redis)
  try {
    await requestCost(bench, gateway, { ms: warmUpMs })
    const { cpuMicros, redisMicros, redisCommands } = await requestCost(bench, gateway, {
      ms: roundMs,
    })
    const event = await eventCost(bench, gateway, roundMs)
    return { request: cpuMicros, event, redis: redisMicros, commands: redisCommands }
  } finally {
    await gateway.stop()
  }
}

const micros = (value: number) => value.toFixed(1)
const percent = (ratio: number) => `${((ratio - 1) * 100).toFixed(1)} %`

function print(found: ReadonlyMap<string, readonly Cost[]>): void {
  const [[base, first] = ['', []]] = found
  const lines = [...found].map(([name, costs]) => {
    const cell = (what: 'request' | 'event' | 'redis') => {
      const ratios = costs.map((cost, round) => cost[what] / (first[round]?.[what] ?? Number.NaN))
      const own = micros(median(costs.map((cost) => cost[what])))
      const spread = [median(ratios), Math.min(...ratios), Math.max(...ratios)].map(percent)
      return name === base ? own : `${own} (${spread[0]}; ${spread[1]} to ${spread[2]})`
    }
    const commands = median(costs.map((cost) => cost.commands)).toFixed(1)
    return `| ${name} | ${cell('request')} | ${cell('event')} | ${cell('redis')} | ${commands} |`
  })
  process.stdout.write(
    `| medians of ${first.length} rounds | CPU a request, µs | an event, µs | Redis' CPU a request, µs | its commands |\n|---|---|---|---|---|\n${lines.join('\n')}\n`,
  )
}

async function main(): Promise<void> {
  const trees: Tree[] = []
  // With numbers, because one may be compared with itself.
  for (const [i, word] of positionals.entries())
    trees.push({ name: `${i + 1}: ${word}`, folder: await treeOf(word) })
  if (trees.length < 2) throw new Error('Write at least two revisions or folders')
  const { bench, backendPort } = await startBench()
  const found = new Map<string, Cost[]>(trees.map(({ name }) => [name, []]))
  for (let round = 1; round <= Number(flags.rounds); round++) {
    for (const i of trees.keys()) {
      const tree = trees[(i + round) % trees.length]
      if (!tree) continue
      const { name, folder } = tree
      const cost = await measure(bench, backendPort, folder)
      found.get(name)?.push(cost)
      say(`${round} ${name} ${micros(cost.request)} ${micros(cost.event)}`)
    }
  }
  print(found)
}

await run(main)
