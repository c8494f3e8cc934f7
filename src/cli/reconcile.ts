// tollgate reconcile: compares what a backend says that it has counted with what the ledger has charged, by day and
// model, and shows where they part.

import { field } from '../http/json/field.ts'
import type { List } from '../http/page.ts'
import { exit, paint, plural, tell, usageError, wordAt } from './command.ts'
import type { Admin, Call, Command } from './command.ts'
import { readBackendCount } from './reconcile/backend-count.ts'
import type { BackendCount } from './reconcile/backend-count.ts'
import { calendarOf, daysLater, midnightOf } from './reconcile/calendar.ts'
import type { Calendar } from './reconcile/calendar.ts'
import { compare, parseTolerance } from './reconcile/compare.ts'
import type { Compared } from './reconcile/compare.ts'
import { oldestDay, readLedgerCount } from './reconcile/ledger-count.ts'
import { modelsOf } from './reconcile/models.ts'
import type { Models, NamedTargets } from './reconcile/models.ts'
import { DayTally } from './reconcile/tally.ts'
import type { DayCount } from './reconcile/tally.ts'
import { formatAmount, formatChange, table } from './table.ts'
import type { Column } from './table.ts'
import { parsePairs } from './values.ts'

export const reconcile: Command = {
  name: 'reconcile',
  words: ['FILE'],
  summary:
    "compare a backend's own count, CSV or JSON lines, with the ledger; exit code 1 if they part",
  options: {
    tolerance: {
      value: 'SIZE',
      help: 'how far apart sums may be: 0.5% of the larger one, or 500 tokens; if not given, 0',
    },
    from: { value: 'DAY', help: 'from this day on; if not given, the first one in FILE' },
    to: { value: 'DAY', help: 'before this day; if not given, until the last one in FILE' },
    model: { value: 'MODEL', help: 'only this model; may be given several times', isList: true },
    map: {
      value: 'NAME=MODEL',
      help: "another name that the backend has for a model; its target's name is known. May be given several times",
      isList: true,
    },
    'time-zone': {
      value: 'ZONE',
      help: 'where the days of FILE begin; if not given, in plugins.metering.time_zone',
    },
    uncached: {
      help: 'FILE leaves out prompt tokens that the backend had in its cache, as llama.cpp does',
    },
    all: { help: 'also show sums that do not part' },
  },
  async run(call) {
    const isTolerated = parseTolerance(call.text('tolerance') ?? '0')
    const [from, to] = [dayOption(call, 'from'), dayOption(call, 'to')]
    const admin = await call.admin()
    const calendar = calendarOf(call.text('time-zone') ?? (await zoneOf(admin)))
    const { data } = await admin.get<List<NamedTargets>>('targets')
    const models = modelsOf(data, parsePairs(call.list('map')))
    const last = to === undefined ? undefined : daysLater(to, -1)
    const both = await readBoth(call, { admin, calendar, models, from, last })
    const rows = compare(both.backend.tally, both.ledger, isTolerated)
    return conclude(call, { ...both, calendar, models, rows })
  },
}

function dayOption(call: Call, name: 'from' | 'to'): string | undefined {
  const text = call.text(name)
  if (text === undefined || midnightOf(text) !== undefined) return text
  throw usageError(`--${name} takes a day, such as 2026-11-20.`)
}

async function zoneOf(admin: Admin): Promise<string> {
  const { config } = await admin.get<{ config: unknown }>('config')
  const zone = field(field(field(config, 'plugins'), 'metering'), 'time_zone')
  return typeof zone === 'string' ? zone : 'UTC'
}

interface Asked {
  readonly admin: Admin
  readonly calendar: Calendar
  readonly models: Models
  /** The days that were asked for; both are included. */
  readonly from: string | undefined
  readonly last: string | undefined
}

interface Both {
  readonly backend: BackendCount
  readonly ledger: DayTally
  readonly first: string
  readonly last: string
}

async function readBoth(call: Call, asked: Asked): Promise<Both> {
  const { admin, calendar, models } = asked
  const file = wordAt(call, 0)
  const nowMs = Date.now()
  const [oldest, newest] = [oldestDay(calendar, nowMs), calendar.dayAt(nowMs)]
  const only = call.list('model')?.map((name) => models.ofGateway(name))
  const isWanted = ({ day, model }: DayCount) =>
    (asked.from === undefined || day >= asked.from) &&
    (asked.last === undefined || day <= asked.last) &&
    (only?.includes(model) ?? true)
  const days = { oldest, newest, signal: call.io.signal }
  const backend = await patiently(call, file, () =>
    readBackendCount(file, { calendar, models, isWanted, ...days }),
  )
  const counted = backend.tally.sums.map(({ day }) => day).toSorted()
  const first = [asked.from ?? counted.at(0) ?? newest, oldest].toSorted()[1] ?? oldest
  const last = [asked.last ?? counted.at(-1) ?? oldest, newest].toSorted()[0] ?? newest
  if (first > last) throw usageError(`${file} has no counts of days that can be compared.`)
  const ledger = new DayTally()
  const all = await readLedgerCount(admin, {
    calendar,
    models,
    first,
    last,
    isUncached: call.has('uncached'),
  })
  for (const sum of all.sums) if (isWanted(sum)) ledger.add(sum)
  return { backend, ledger, first, last }
}

/** Says so when reading takes more than a second. */
async function patiently<T>(
  { io, isJson }: Call,
  file: string,
  read: () => Promise<T>,
): Promise<T> {
  const waiting = setTimeout(() => isJson || io.stderr.write(`Reading ${file} …\n`), 1000)
  try {
    return await read()
  } finally {
    clearTimeout(waiting)
  }
}

interface Reconciled extends Both {
  readonly calendar: Calendar
  readonly models: Models
  readonly rows: readonly Compared[]
}

function conclude(
  call: Call,
  { backend, calendar, models, rows, first, last }: Reconciled,
): number {
  const parted = rows.filter(({ parts }) => parts)
  const { lines, ignored } = backend
  const data = rows.map((row) => ({ ...row, configured: models.isKnown(row.model) }))
  const value = {
    object: 'reconciliation',
    first,
    last,
    time_zone: calendar.zone,
    lines,
    ignored,
    parted: parted.length,
    data: call.has('all') ? data : data.filter(({ parts }) => parts),
  }
  const word = parted.length === 1 ? 'parts' : 'part'
  const sentence =
    parted.length === 0
      ? paint(call, 'green', `${plural(rows.length, 'sum')}: none parts.`)
      : paint(call, 'red', `${parted.length} of ${plural(rows.length, 'sum')} ${word}.`)
  const unused = ignored > 0 ? `, ${plural(ignored, 'line')} ignored` : ''
  const span = `${first} to ${last}, ${calendar.zone}; ${plural(lines, 'line')} read${unused}`
  const rowsTold = value.data.length > 0 ? `${table(columns, value.data)}\n` : ''
  tell(call, value, `${rowsTold}${sentence} (${span})\n`)
  return parted.length === 0 ? exit.ok : exit.failed
}

type ComparedRow = Compared & { readonly configured: boolean }

const columns: readonly Column<ComparedRow>[] = [
  { title: 'DAY', cell: ({ day }) => day },
  { title: 'MODEL', cell: ({ model }) => model },
  { title: 'COUNT', cell: ({ count }) => count },
  { title: 'BACKEND', isNumber: true, cell: ({ backend }) => formatAmount(backend) },
  { title: 'LEDGER', isNumber: true, cell: ({ ledger }) => formatAmount(ledger) },
  { title: 'DIFFERENCE', isNumber: true, cell: ({ difference }) => formatChange(difference) },
  { title: 'SHARE', isNumber: true, cell: shareOf },
  { title: 'NOTE', cell: ({ configured }) => (configured ? '' : 'this model is not configured') },
]

/** The difference, in percent of what the backend has counted. */
function shareOf({ backend, difference }: ComparedRow): string {
  return backend ? `${((100 * difference) / backend).toFixed(2)} %` : '-'
}
