// `npm run bench:compare -- REV REV`: what a request and an event cost in two or more revisions or folders of the gateway.
// All stand side by side on one core. Their requests take turns, and their streams run at once, so that what else the
// machine does strikes all of them; a turn is compared with the first tree's turn beside it. Each round starts the gateways
// anew, because one process differs from the next by several per cent.

import { mkdirSync, mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startTollgate } from './contestants.ts'
import type { Contestant } from './contestants.ts'
import { folder as ownFolder, run, say, startBench } from './ground.ts'
import { eventCosts, requestCost } from './measures.ts'
import type { Bench } from './measures.ts'
import { median } from './report.ts'
import { treeOf } from './trees.ts'

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '5' },
    requests: { type: 'string', default: '40' },
    events: { type: 'string', default: '10' },
  },
})
const warmUpMs = 11_000
const requestTurnMs = 300
const eventTurnMs = 1500

/** What each turn cost: CPU in µs, and how many commands of Redis. */
interface Turns {
  readonly request: number[]
  readonly event: number[]
  readonly redis: number[]
  readonly commands: number[]
}

/** Calls each tree `times` times, and begins each time with another one. */
async function inTurn<T>(trees: readonly T[], times: number, one: (tree: T) => Promise<void>) {
  for (let turn = 0; turn < times; turn++) {
    for (const i of trees.keys()) {
      const tree = trees[(turn + i) % trees.length]
      if (tree) await one(tree)
    }
  }
}

interface Standing {
  readonly gateway: Contestant
  readonly turns: Turns
}

async function round(bench: Bench, n: number, standing: readonly Standing[]): Promise<void> {
  // What a tree does first after it has rested is not counted.
  await inTurn(standing, 1, async ({ gateway }) => {
    await requestCost(bench, gateway, { ms: warmUpMs })
  })
  await inTurn(standing, 1, async ({ gateway }) => {
    await requestCost(bench, gateway, { ms: requestTurnMs })
  })
  await inTurn(standing, Number(flags.requests), async ({ gateway, turns }) => {
    const cost = await requestCost(bench, gateway, { ms: requestTurnMs })
    turns.request.push(cost.cpuMicros)
    turns.redis.push(cost.redisMicros)
    turns.commands.push(cost.redisCommands)
  })
  // Whose streams are opened first also gets its events first, with the core's caches as the load generator left them.
  const first = n % standing.length
  const order = [...standing.slice(first), ...standing.slice(0, first)]
  const found = await eventCosts(
    bench,
    order.map(({ gateway }) => gateway),
    { turns: Number(flags.events), ms: eventTurnMs },
  )
  for (const [i, { turns }] of order.entries()) turns.event.push(...(found[i] ?? []))
}

const mean = (values: readonly number[]) =>
  values.reduce((sum, value) => sum + value, 0) / values.length
const percent = (ratio: number) => `${((ratio - 1) * 100).toFixed(1)} %`

/** The ratio of the means; of the paired turns the median and the quartiles. */
function ratio(turns: readonly number[], base: readonly number[]): string {
  const ratios = turns.map((cost, i) => cost / (base[i] ?? Number.NaN)).toSorted((a, b) => a - b)
  const quartile = (n: number) => percent(ratios[Math.floor((ratios.length * n) / 4)] ?? Number.NaN)
  const middle = percent(median(ratios))
  return `${percent(mean(turns) / mean(base))}; median ${middle}, ${quartile(1)} to ${quartile(3)}`
}

interface Tree {
  readonly name: string
  readonly folder: string
  readonly turns: Turns
}

function print(trees: readonly Tree[]): void {
  const first = trees[0]?.turns
  if (!first) return
  const lines = trees.map(({ name, turns }) => {
    const cell = (what: 'request' | 'event' | 'redis') => {
      if (turns[what].length === 0) return 'not measured'
      const own = mean(turns[what]).toFixed(1)
      return turns === first ? own : `${own} (${ratio(turns[what], first[what])})`
    }
    const commands = turns.commands.length > 0 ? median(turns.commands).toFixed(1) : ''
    return `| ${name} | ${cell('request')} | ${cell('event')} | ${cell('redis')} | ${commands} |`
  })
  process.stdout.write(
    `| means of ${first.request.length} and ${first.event.length} turns | CPU a request, µs | an event, µs | Redis' CPU a request, µs | its commands |\n|---|---|---|---|---|\n${lines.join('\n')}\n`,
  )
}

async function main(): Promise<void> {
  const trees: Tree[] = []
  // With numbers, because one may be compared with itself.
  for (const [i, word] of positionals.entries()) {
    const turns = { request: [], event: [], redis: [], commands: [] }
    trees.push({ name: `${i + 1}: ${word}`, folder: await treeOf(word), turns })
  }
  if (trees.length < 2) throw new Error('Write at least two revisions or folders')
  const { bench, backendPort } = await startBench()
  for (let n = 1; n <= Number(flags.rounds); n++) {
    const standing: Standing[] = []
    try {
      for (const { folder: tree, turns } of trees) {
        const folder = mkdtempSync(join(ownFolder, 'round-'))
        mkdirSync(join(folder, 'data'))
        const order = { folder, backendPort, files: 0, tree }
        standing.push({ gateway: await startTollgate(order, bench.redis), turns })
      }
      await round(bench, n, standing)
    } finally {
      await Promise.all(standing.map(({ gateway }) => gateway.stop()))
    }
    say(`round ${n} of ${flags.rounds}`)
  }
  print(trees)
}

await run(main)
