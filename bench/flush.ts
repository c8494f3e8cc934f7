// `npm run bench:flush`: what an event costs when it may wait (`flush`), beside nginx, which lets none wait, in turn on the
// same core: 100 streams of 50 events a second each.

import { mkdirSync, mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startNginx, startTollgate } from './contestants.ts'
import type { Contestant } from './contestants.ts'
import { folder, run, say, startBench } from './ground.ts'
import { eventCost, requestCost } from './measures.ts'
import type { Bench } from './measures.ts'
import { median } from './report.ts'

const { values: flags } = parseArgs({ options: { rounds: { type: 'string', default: '4' } } })
const warmUpMs = 11_000
const roundMs = 6000
const waitsMs = [0, 25, 50, 100, 250]

async function measure(bench: Bench, contestant: Contestant): Promise<number> {
  try {
    await requestCost(bench, contestant, { ms: warmUpMs })
    return await eventCost(bench, contestant, roundMs)
  } finally {
    await contestant.stop()
  }
}

function ownFolder(): string {
  const own = mkdtempSync(join(folder, 'round-'))
  mkdirSync(join(own, 'data'))
  return own
}

function report(rounds: readonly (readonly number[])[], nginx: readonly number[]): string {
  const rows = waitsMs.map((waitMs, i) => {
    const costs = rounds.map((round) => round[i] ?? Number.NaN)
    const ratio = median(costs.map((cost, n) => cost / (nginx[n] ?? Number.NaN)))
    return `| ${waitMs} ms | ${median(costs).toFixed(1)} | ${ratio.toFixed(2)} |`
  })
  return `medians of ${rounds.length} rounds; nginx: ${median(nginx).toFixed(1)} µs

| \`flush\` | CPU µs an event | to nginx |
| ------- | --------------- | -------- |
${rows.join('\n')}
`
}

async function main(): Promise<void> {
  const { bench, backendPort } = await startBench()
  const [nginx, rounds]: [number[], number[][]] = [[], []]
  for (let round = 1; round <= Number(flags.rounds); round++) {
    const ground = () => ({ folder: ownFolder(), backendPort, files: 4096 })
    nginx.push(await measure(bench, await startNginx(ground())))
    const costs: number[] = []
    for (const waitMs of waitsMs) {
      const more = `limits: { flush: ${waitMs}ms }\n`
      costs.push(await measure(bench, await startTollgate({ ...ground(), more }, bench.redis)))
    }
    rounds.push(costs)
    say(
      `${round}: nginx ${nginx.at(-1)?.toFixed(1)}, ${costs.map((cost) => cost.toFixed(1)).join(' ')}`,
    )
  }
  process.stdout.write(report(rounds, nginx))
}

await run(main)
