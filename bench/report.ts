// Makes bench/results.md from samples: medians with their spread, ratios taken round by round, and targets met or
// missed. It describes what kind of machine it was, but never names it.

import { availableParallelism, cpus, totalmem } from 'node:os'
import type { Name } from './contestants.ts'
import type { Books } from './books.ts'
import type { Memory, RequestCost } from './measures.ts'
import { isPinned } from './processes.ts'

/** One number a round; the rounds of all contestants are in the same order. */
export type Rounds<T> = Readonly<Record<Name, readonly T[]>>

export interface Results {
  readonly mode: string
  readonly tookMinutes: number
  readonly redisVersion: string
  /** Share of the machine's CPU that processes outside the benchmark used. */
  readonly foreign: number
  readonly requests: Rounds<RequestCost>
  readonly eventMicros: Rounds<number>
  readonly firstByteMs: Rounds<readonly number[]>
  readonly memory: Readonly<Record<Name, readonly Memory[]>>
  readonly longRun: { readonly first: number; readonly last: number; readonly span: string }
  readonly books: Books
}

const names = ['nginx', 'Portkey', 'Tollgate'] as const
/** If other processes use more than this, the benchmark measures waiting for the CPU, not the proxy. */
const quietShare = 0.05
const pass = (ok: boolean) => (ok ? 'pass' : '**miss**')

export function toMarkdown(results: Results): string {
  return [
    '# Benchmark results',
    '',
    'Written by `npm run bench`; what is measured and how: docs/performance.md. Compare ratios, not microseconds.',
    '',
    ...machine(results),
    '',
    '## Targets',
    '',
    ...table(['target', 'measured (least–most of the rounds)', ''], targets(results)),
    '',
    '## Measured',
    '',
    ...table(['', ...names], measured(results)),
    '',
    '## The books',
    '',
    ...booksLines(results.books),
    '',
  ].join('\n')
}

function machine({ mode, tookMinutes, redisVersion, foreign }: Results): string[] {
  const cores = availableParallelism()
  const where = isPinned ? 'the proxy on one core, everything else on the others' : 'not pinned'
  const gib = Math.round(totalmem() / 2 ** 30)
  return [
    `- ${new Date().toISOString().slice(0, 10)}, ${mode}, ${tookMinutes.toFixed(0)} minutes`,
    `- ${cores} cores (${cpus()[0]?.model.trim() ?? 'unknown'}), ${gib} GiB; ${where}`,
    `- Node ${process.versions.node}, Redis ${redisVersion} (AOF, every second)`,
    `- other processes took ${(foreign * 100).toFixed(0)} % of the machine meanwhile${foreign > quietShare ? ': times to the first byte are not to be trusted' : ''}`,
  ]
}

function targets(results: Results): string[][] {
  const cpu = map(results.requests, ({ cpuMicros }) => cpuMicros)
  const toNginx = ratios(cpu.Tollgate, cpu.nginx)
  const toPortkey = ratios(cpu.Portkey, cpu.Tollgate)
  const events = ratios(results.eventMicros.Tollgate, results.eventMicros.nginx)
  const added = (p: number) =>
    percentile(pooled(results, 'Tollgate'), p) - percentile(pooled(results, 'nginx'), p)
  const most = results.memory.Tollgate.at(-1)
  const growth = results.longRun.last / results.longRun.first
  const { books } = results
  const inTime = (ok: boolean) => (results.foreign > quietShare ? 'not judged' : pass(ok))
  return [
    ['CPU a request ≤ 6 × nginx', spread(toNginx, ' ×'), pass(median(toNginx) <= 6)],
    [
      'CPU a request ≥ 6 × less than Portkey',
      spread(toPortkey, ' ×'),
      pass(median(toPortkey) >= 6),
    ],
    ['CPU an SSE event ≤ 2 × nginx', spread(events, ' ×'), pass(median(events) <= 2)],
    [
      'first byte, added over nginx, p50 < 0.6 ms',
      `${added(0.5).toFixed(2)} ms (${addedSpread(results, 0.5)})`,
      inTime(added(0.5) < 0.6),
    ],
    [
      'first byte, added over nginx, p99 < 2 ms',
      `${added(0.99).toFixed(2)} ms (${addedSpread(results, 0.99)})`,
      inTime(added(0.99) < 2),
    ],
    [
      `≤ 60 KB an open stream at ${most?.streams ?? 0}`,
      `${most?.kbAStream.toFixed(0) ?? '?'} KB`,
      pass((most?.kbAStream ?? Infinity) <= 60),
    ],
    [`RSS of a long run, ${results.longRun.span}: ≤ 1.05`, growth.toFixed(3), pass(growth <= 1.05)],
    [
      'requests = holds = settles = log lines',
      books.isEven ? 'equal' : 'not equal',
      pass(books.isEven),
    ],
  ]
}

function measured(results: Results): string[][] {
  const { requests, eventMicros, memory } = results
  const row = (label: string, pick: (cost: RequestCost) => number, digits = 0) => [
    label,
    ...names.map((name) => spread(requests[name].map(pick), '', digits)),
  ]
  const steps = memory.Tollgate.map(({ streams }) => streams)
  const late = (p: number) => names.map((name) => percentile(pooled(results, name), p).toFixed(2))
  return [
    row('CPU µs a request (1 KB POST, 1 KB answer)', ({ cpuMicros }) => cpuMicros, 1),
    row(
      'requests/s a core (rate ÷ share of the core used)',
      ({ perSecond, busy }) => perSecond / busy,
    ),
    row('rate reached, requests/s', ({ perSecond }) => perSecond),
    row("Redis' CPU µs a request, beside", ({ redisMicros }) => redisMicros, 1),
    row('scripts (round trips to Redis) a request', ({ scripts }) => scripts, 2),
    row('commands inside Redis a request', ({ redisCommands }) => redisCommands, 1),
    ['CPU µs an SSE event', ...names.map((name) => spread(eventMicros[name], '', 1))],
    ['first byte of a stream at 50/s, ms, p50', ...late(0.5)],
    ['first byte of a stream at 50/s, ms, p99', ...late(0.99)],
    ...steps.map((streams, n) => [
      `KB an open stream at ${streams} (RSS MiB)`,
      ...names.map((name) => memoryCell(memory[name][n])),
    ]),
  ]
}

function memoryCell(found: Memory | undefined): string {
  return found ? `${found.kbAStream.toFixed(0)} (${found.rssMiB.toFixed(0)})` : 'not measured'
}

function booksLines(books: Books): string[] {
  return [
    ...table(
      ['Tollgate', 'count'],
      Object.entries(books.counts).map(([name, count]) => [name, String(count)]),
    ),
    '',
    `Spent ${books.spent}, expected ${books.expected}; still reserved ${books.reserved}.`,
  ]
}

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [line(heads), line(heads.map(() => '---')), ...rows.map(line)]
}

function map<T, U>(rounds: Rounds<T>, pick: (one: T) => U): Rounds<U> {
  const { nginx, Portkey, Tollgate } = rounds
  return { nginx: nginx.map(pick), Portkey: Portkey.map(pick), Tollgate: Tollgate.map(pick) }
}

function pooled(results: Results, name: Name): readonly number[] {
  return results.firstByteMs[name].flat()
}

function addedSpread({ firstByteMs }: Results, p: number): string {
  const each = firstByteMs.Tollgate.map(
    (round, n) => percentile(round, p) - percentile(firstByteMs.nginx[n] ?? [], p),
  )
  return `${Math.min(...each).toFixed(2)}–${Math.max(...each).toFixed(2)}`
}

function ratios(above: readonly number[], below: readonly number[]): number[] {
  return above.map((value, n) => value / (below[n] ?? NaN))
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other)
  const middle = [Math.floor((sorted.length - 1) / 2), Math.ceil((sorted.length - 1) / 2)]
  return middle.reduce((sum, at) => sum + (sorted[at] ?? NaN), 0) / 2
}

export function percentile(values: readonly number[], p: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))] ?? NaN
}

function spread(values: readonly number[], unit = '', digits = 2): string {
  if (!values.some((value) => value > 0.005)) return '0'
  const text = (value: number) => value.toFixed(digits)
  return `${text(median(values))}${unit} (${text(Math.min(...values))}–${text(Math.max(...values))})`
}
