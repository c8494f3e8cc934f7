// tollgate top: what a gateway does now, shown anew each second, from its metrics and its list of targets: streams,
// tokens, refusals, Redis, targets. Tokens are counted when they are settled, at the end of a stream.

import { setTimeout as sleep } from 'node:timers/promises'
import type { List } from '../http/page.ts'
import { CliError, exit, tell } from './command.ts'
import type { Admin, Command, Io } from './command.ts'
import { cleanLines, formatTime, table } from './table.ts'
import type { Column } from './table.ts'

const everyMs = 1000
/** A gateway that hangs takes connections and answers nothing. The operator who watches must see that soon. */
const answerMs = 3000
/** Moves the cursor to the top, and clears the rest. */
const clear = '\x1b[H\x1b[J'

export const top: Command = {
  name: 'top',
  summary: 'what the gateway does now, each second: streams, tokens, refusals, Redis, targets',
  options: { once: { help: 'print one second of it, and end' } },
  async run(call) {
    const admin = await call.admin()
    let before = await look(admin)
    for (;;) {
      await sleep(everyMs, undefined, { signal: call.io.signal }).catch(() => undefined)
      if (call.io.signal?.aborted) return exit.ok
      const isOnce = call.has('once')
      const now = isOnce ? await look(admin) : await patientLook(admin, call.io)
      if (!now) continue
      const seen = compare(before, now)
      if (isOnce) return tell(call, seen, page(seen))
      tell(call, seen, (call.io.stdout.isTTY ? clear : '\n') + page(seen))
      before = now
    }
  },
}

interface ListedTarget {
  readonly name: string
  readonly state: string
  readonly open: number
}

interface ListedModel {
  readonly id: string
  readonly queue: number
  readonly targets: readonly ListedTarget[]
}

interface Look {
  readonly atMs: number
  readonly samples: readonly Sample[]
  readonly models: readonly ListedModel[]
}

interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

async function look(admin: Admin): Promise<Look> {
  const pieces: string[] = []
  const timeout = { timeoutMs: answerMs }
  const { data: models } = await admin.get<List<ListedModel>>('targets', timeout)
  await admin.download('../metrics', { write: (text) => pieces.push(text) }, timeout)
  return { atMs: performance.now(), samples: parseSamples(pieces.join('')), models }
}

/** Undefined while no gateway answers, as during a restart; the reason goes to stderr. */
async function patientLook(admin: Admin, { stderr, signal }: Io): Promise<Look | undefined> {
  try {
    return await look(admin)
  } catch (error) {
    if (signal?.aborted) return undefined
    if (!(error instanceof CliError) || error.exitCode !== exit.unreachable) throw error
    stderr.write(`${formatTime(Date.now() / 1000)}   ${cleanLines(error.message)}\n`)
    return undefined
  }
}

function parseSamples(text: string): readonly Sample[] {
  return [...text.matchAll(/^tollgate_(\w+)(?:\{(.*)\})? (\S+)$/gm)].map(
    ([, name = '', labels = '', value]) => ({
      name,
      labels: Object.fromEntries(
        [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key = '', word = '']) => [
          key,
          word,
        ]),
      ),
      value: Number(value),
    }),
  )
}

type Sums = Readonly<Record<string, number>>

/** The sums of a metric by the values of a label; without a label, one sum of all. */
function sums({ samples }: Look, name: string, label = ''): Sums {
  const found: Record<string, number> = {}
  for (const one of samples) {
    if (one.name !== name) continue
    const key = one.labels[label] ?? ''
    found[key] = (found[key] ?? 0) + one.value
  }
  return found
}

const sum = (at: Look, name: string) => sums(at, name)[''] ?? 0

type Seen = ReturnType<typeof compare>

/** Every number per second is an average over the time between the two looks. */
function compare(before: Look, now: Look) {
  const seconds = (now.atMs - before.atMs) / 1000
  const rates = (name: string, label?: string): Sums => {
    const old = sums(before, name, label)
    const entries = Object.entries(sums(now, name, label))
    // A gateway that has started anew counts from 0.
    const perSecond = (key: string, value: number) =>
      rounded(Math.max(0, value - (old[key] ?? 0)) / seconds)
    return Object.fromEntries(entries.map(([key, value]) => [key, perSecond(key, value)]))
  }
  const rate = (name: string) => rates(name)[''] ?? 0
  const scripts = rate('redis_command_seconds_count')
  const scriptSeconds = rate('redis_command_seconds_sum')
  const refused = Object.entries(rates('rejections_total', 'code')).filter(([, one]) => one > 0)
  return {
    object: 'top',
    at: Math.floor(Date.now() / 1000),
    requests_per_second: rate('http_requests_total'),
    streams: sums(now, 'streams_open', 'kind'),
    tokens_per_second: rates('tokens_total', 'kind'),
    charged_per_second: rate('charged_tokens_total'),
    waived_per_second: rate('waived_tokens_total'),
    rejections_per_second: Object.fromEntries(refused),
    holds_open: sum(now, 'holds_open'),
    ledger_writes_open: sum(now, 'ledger_writes_open'),
    redis: {
      up: sum(now, 'redis_up') === 1,
      scripts_per_second: scripts,
      mean_ms: scripts > 0 ? rounded((scriptSeconds / scripts) * 1000) : 0,
    },
    targets: now.models.flatMap(({ id, queue, targets }) =>
      targets.map(({ name, state, open }) => ({ model: id, name, state, open, queue })),
    ),
  }
}

const rounded = (value: number) => Math.round(value * 1000) / 1000

function page(seen: Seen): string {
  const { redis, tokens_per_second: tokens, streams, targets } = seen
  const refused = Object.entries(seen.rejections_per_second)
  const waived = seen.waived_per_second > 0 ? `   waived ${short(seen.waived_per_second)}` : ''
  const lines = [
    `${formatTime(seen.at)}   requests ${short(seen.requests_per_second)}/s   holds ${seen.holds_open}`,
    `streams   ${named(streams)}`,
    `tokens/s  ${named(tokens)}   charged ${short(seen.charged_per_second)}${waived}`,
    `redis     ${redis.up ? 'up' : 'AWAY'}, ${short(redis.scripts_per_second)} scripts/s, ${short(redis.mean_ms)} ms each; ${seen.ledger_writes_open} writes wait`,
    `refused   ${refused.length === 0 ? 'nothing' : named(seen.rejections_per_second, '/s')}`,
  ]
  return `${cleanLines(lines.join('\n'))}\n\n${table(columns, targets)}`
}

function named(values: Sums, unit = ''): string {
  const words = Object.entries(values).map(([name, value]) => `${name} ${short(value)}${unit}`)
  return words.length > 0 ? words.join(', ') : 'none'
}

const short = (value: number) => String(Number(value.toPrecision(3)))

const columns: readonly Column<Seen['targets'][number]>[] = [
  { title: 'MODEL', cell: ({ model }) => model },
  { title: 'TARGET', cell: ({ name }) => name },
  { title: 'STATE', cell: ({ state }) => state },
  { title: 'RUNNING', isNumber: true, cell: ({ open }) => `${open}` },
  { title: 'WAITING', isNumber: true, cell: ({ queue }) => `${queue}` },
]
