// `npm run bench:sessions`: what a session's stream costs compared with a plain one, on the same gateway in one run:
// CPU of an event, Redis commands of an event, memory of a stream, with one reader a message and with two. Writes
// bench/sessions.md; with `--quick` one round, which proves and writes nothing.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { BackendCounts, BackendOrder } from './backend.ts'
import { startTollgate } from './contestants.ts'
import type { Tollgate } from './contestants.ts'
import { folder, run, say, startBench, startScript } from './ground.ts'
import type { LoadOrder, LoadReport } from './load.ts'
import { ask, cpuSeconds, rssBytes } from './processes.ts'
import { median } from './report.ts'
import type { SessionOrder, SessionReport } from './session-load.ts'

interface Cost {
  readonly micros: number
  /** Redis commands that the gateway sent, for each event. */
  readonly commands: number
  /** The same with those that scripts ran. */
  readonly all: number
  readonly kbAStream: number
}

const { values: flags } = parseArgs({ options: { quick: { type: 'boolean', default: false } } })
const rounds = flags.quick ? 1 : 3
const warmUpMs = 4000
const measureMs = 8000

const { bench, backendPort } = await startBench()
const { backend, load: plainLoad, redis } = bench
const sessionLoad = startScript('session-load.ts')
const gateway = await startTollgate({ folder, backendPort, files: 20_000 }, redis)
const key = /Bearer (\S+)/.exec(gateway.aim.headers[0] ?? '')?.[1] ?? ''

interface Kind {
  readonly streams: number
  readonly everyMs: number
  /** 0 means a plain stream of /v1. */
  readonly readers: number
}

async function measured(one: Tollgate, kind: Kind): Promise<Cost> {
  const paths = kind.readers > 0 ? await newSessions(one.aim.port, kind.streams) : []
  // Its memory has no connections by which sessions were made.
  await one.restart()
  const pids = one.pids()
  await wait(1000)
  const empty = rssBytes(pids)
  await opened(one, kind, paths)
  await wait(warmUpMs)
  const before = await reading(pids)
  await wait(measureMs)
  const after = await reading(pids)
  const rss = rssBytes(pids)
  await ask<BackendCounts>(backend, 'finish' satisfies BackendOrder)
  const ends = [ask<LoadReport>(plainLoad, { kind: 'ended' } satisfies LoadOrder)]
  const sessionEnds = await ask<SessionReport>(sessionLoad, {
    kind: 'ended',
  } satisfies SessionOrder)
  await Promise.all(ends)
  const expected = kind.streams * kind.readers
  if (sessionEnds.failures > 0 || sessionEnds.streams !== expected) {
    throw new Error(`${sessionEnds.streams} of ${expected} streams ended: ${sessionEnds.failure}`)
  }
  const events = after.events - before.events
  return {
    micros: ((after.cpu - before.cpu) * 1e6) / events,
    commands: (after.scripts - before.scripts) / events,
    all: (after.all - before.all) / events,
    kbAStream: (rss - empty) / 1024 / kind.streams,
  }
}

async function opened(
  { aim }: Tollgate,
  { streams, everyMs, readers }: Kind,
  paths: readonly string[],
): Promise<void> {
  const user = `e900000000/${everyMs}`
  if (readers === 0) {
    const order = { kind: 'open', aim, streams, perSecond: 200, user } as const
    const report = await ask<LoadReport>(plainLoad, order satisfies LoadOrder)
    if (report.failures > 0) throw new Error(report.failure)
    return
  }
  const content = 'Tell me about the rain on the roof of the old mill. '.repeat(16)
  const body = JSON.stringify({ content, max_tokens: 1_000_000, user })
  const order = { kind: 'open', port: aim.port, key, paths, readers, body } as const
  const report = await ask<SessionReport>(sessionLoad, order satisfies SessionOrder)
  if (report.failures > 0) throw new Error(report.failure)
}

async function newSessions(port: number, count: number): Promise<readonly string[]> {
  const paths: string[] = []
  for (let n = 0; n < count; n++) paths.push(`${await newSession(port)}/messages`)
  return paths
}

async function newSession(port: number): Promise<string> {
  const answer = await fetch(`http://127.0.0.1:${port}/api/chat/sessions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
  })
  if (!answer.ok) throw new Error(await answer.text())
  return answer.headers.get('location') ?? ''
}

async function reading(pids: readonly number[]) {
  const { events } = await ask<BackendCounts>(backend, 'counts' satisfies BackendOrder)
  return { ...(await redis.commands()), cpu: cpuSeconds(pids), events }
}

function summed(costs: readonly Cost[]): Cost {
  const of = (field: keyof Cost) => median(costs.map((cost) => cost[field]))
  return {
    micros: of('micros'),
    commands: of('commands'),
    all: of('all'),
    kbAStream: of('kbAStream'),
  }
}

const sizes = [
  { streams: 100, everyMs: 20 },
  { streams: 1000, everyMs: 125 },
]
const kinds = [0, 1, 2]

async function table({ streams, everyMs }: (typeof sizes)[number]): Promise<string> {
  const found = new Map<number, Cost[]>(kinds.map((readers) => [readers, []]))
  for (let round = 1; round <= rounds; round++) {
    for (const readers of kinds) {
      say(`${streams} streams, ${readers} readers a message: round ${round} of ${rounds}`)
      found.get(readers)?.push(await measured(gateway, { streams, everyMs, readers }))
    }
  }
  const plain = summed(found.get(0) ?? [])
  const rows = kinds.map((readers) => {
    const { micros, commands, all, kbAStream } = summed(found.get(readers) ?? [])
    const name =
      readers === 0 ? 'plain, `/v1/chat`' : `session, ${readers} reader${readers > 1 ? 's' : ''}`
    const ratio = (micros / plain.micros).toFixed(2)
    return `| ${name} | ${micros.toFixed(1)} | ${ratio} | ${commands.toFixed(3)} | ${all.toFixed(3)} | ${kbAStream.toFixed(0)} |`
  })
  return [
    `## ${streams} streams at ${1000 / everyMs} events/s each`,
    '',
    '| | CPU µs an event | to plain | Redis commands an event | with those inside scripts | KB a stream |',
    '|---|---|---|---|---|---|',
    ...rows,
    '',
  ].join('\n')
}

async function main(): Promise<void> {
  const tables: string[] = []
  for (const size of sizes) tables.push(await table(size))
  const head = `# Streams of sessions\n\nBy \`npm run bench:sessions\`: medians of ${rounds} rounds, a fresh process each, one core for the gateway. An event is one of the backend's,\nhowever many read it. Ratios are to be compared, not microseconds.\n`
  const text = [head, ...tables].join('\n')
  process.stdout.write(text)
  if (!flags.quick) writeFileSync(join(import.meta.dirname, 'sessions.md'), text)
}

await run(main)
