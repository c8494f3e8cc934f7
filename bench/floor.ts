// `npm run bench:floor`: what the parts that the gateway is built of cost by themselves (bare.ts), in turn with nginx and the
// gateway on one core. Writes bench/floor.md.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startBare, startNginx, startTollgate } from './contestants.ts'
import type { Contestant } from './contestants.ts'
import { folder, run, say, startBench } from './ground.ts'
import { eventCost, firstBytes, requestCost } from './measures.ts'
import { median, percentile } from './report.ts'

const warmUpMs = 8000
const [requestTurns, requestMs] = [16, 700]
const [eventTurns, eventMs] = [4, 4000]
const [firstByteTurns, firstByteMs] = [3, 6000]

interface Measured {
  readonly one: Contestant
  readonly request: number[]
  readonly event: number[]
  readonly firstByte: number[]
}

/** Each turn begins with another one: whose turn follows a dear one's finds the caches cold. */
async function inTurn(
  all: readonly Measured[],
  turns: number,
  take: (m: Measured) => Promise<void>,
) {
  for (let turn = 0; turn < turns; turn++) {
    for (let i = 0; i < all.length; i++) {
      const measured = all[(turn + i) % all.length]
      if (measured) await take(measured)
    }
  }
}

function report(all: readonly Measured[], version: string): string {
  const base = all[0]
  const cell = (m: Measured, what: 'request' | 'event') => {
    const ratios = m[what].map((cost, i) => cost / (base?.[what][i] ?? Number.NaN))
    return `${median(m[what]).toFixed(1)} (${median(ratios).toFixed(1)} ×)`
  }
  const lines = all.map((m) => {
    const ms = [0.5, 0.99].map((p) => percentile(m.firstByte, p).toFixed(2)).join(', ')
    return `| ${m.one.name} | ${cell(m, 'request')} | ${cell(m, 'event')} | ${ms} |`
  })
  return `# What the parts cost by themselves

By \`npm run bench:floor\`, ${new Date().toISOString().slice(0, 10)}, Node ${process.versions.node}, Redis ${version}. All but the last hand a request on and do nothing else for it: no key, no
money, no limits, no metrics, no log (bench/bare.ts). CPU of the proxy, with its ratio to nginx: medians of ${requestTurns} turns for a
request and ${eventTurns} for an event, as docs/performance.md describes both. First byte: in ms, p50 and p99.

|     | CPU µs a request | CPU µs an event | first byte |
| --- | ---------------- | --------------- | ---------- |
${lines.join('\n')}
`
}

async function main(): Promise<void> {
  const { bench, backendPort } = await startBench()
  const ground = { folder, backendPort, files: 4096 }
  const { redis } = bench
  const contestants = [
    await startNginx(ground),
    await startBare('node', ground, redis),
    await startBare('http-proxy-3', ground, redis),
    await startBare('http-proxy-3, ioredis', ground, redis),
    await startTollgate(ground, redis),
  ]
  const all = contestants.map((one) => ({ one, request: [], event: [], firstByte: [] }) as Measured)
  for (const { one } of all) {
    say(`warming up ${one.name}`)
    await requestCost(bench, one, { ms: warmUpMs })
  }
  await inTurn(all, requestTurns, async ({ one, request }) => {
    request.push((await requestCost(bench, one, { ms: requestMs })).cpuMicros)
  })
  say('events')
  await inTurn(all, eventTurns, async ({ one, event }) => {
    event.push(await eventCost(bench, one, eventMs))
  })
  say('first bytes')
  await inTurn(all, firstByteTurns, async ({ one, firstByte }) => {
    firstByte.push(...(await firstBytes(bench, one, firstByteMs)))
  })
  const text = report(all, redis.version)
  process.stdout.write(text)
  writeFileSync(join(import.meta.dirname, 'floor.md'), text)
}

await run(main)
