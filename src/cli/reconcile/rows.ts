// One line of a backend's count: of CSV with a line of titles, or a JSON object. If a line is neither, says what is
// wrong with it.

import { field, parsed } from '../../http/json/field.ts'
import { midnightOf } from './calendar.ts'
import type { Calendar } from './calendar.ts'
import type { DayCount } from './tally.ts'

/** Its message says what is wrong with a line. */
export class BadLine extends Error {}

/** The first line does not say how to read the others. */
export class FormatError extends Error {}

type ReadCount = (line: string) => DayCount

/** What a column, or a field, may be called. */
const names = {
  day: ['day', 'date', 'time'],
  model: ['model'],
  prompt: ['prompt_tokens', 'input_tokens', 'prompt'],
  completion: ['completion_tokens', 'output_tokens', 'completion'],
  tokens: ['tokens', 'total_tokens'],
} as const

type Name = keyof typeof names
type ValueOf = (name: Name) => unknown

/** `first` is the file's first line that is not empty: the titles of CSV, or a JSON object. Throws a FormatError. */
export function readerOf(first: string, calendar: Calendar): ReadCount {
  const valuesOf = hasCount(first) ? jsonValues : csvReader(first)
  return (line) => countOf(valuesOf(line), calendar)
}

/** Whether the first line is a count itself. */
export function hasCount(first: string): boolean {
  return first.trimStart().startsWith('{')
}

function jsonValues(line: string): ValueOf {
  const value = parsed(line)
  if (typeof value !== 'object' || value === null) throw new BadLine('this is no JSON object')
  return (name) => {
    const found = names[name].find((one) => (field(value, one) ?? null) !== null)
    return found === undefined ? undefined : field(value, found)
  }
}

function csvReader(first: string): (line: string) => ValueOf {
  if (first.trimStart().startsWith('[')) {
    throw new FormatError("write one JSON object a line, as `jq -c '.[]'` does, and no list")
  }
  const titles = cellsOf(first)
  const known = titles.map((title) => title.trim().toLowerCase())
  const columnOf = (name: Name) => {
    const found = names[name].find((one) => known.includes(one))
    return found === undefined ? -1 : known.indexOf(found)
  }
  const columns = new Map((Object.keys(names) as Name[]).map((name) => [name, columnOf(name)]))
  const has = (name: Name) => columns.get(name) !== -1
  const hasTokens = has('tokens') || (has('prompt') && has('completion'))
  if (!has('day') || !has('model') || !hasTokens) {
    throw new FormatError(
      'the titles of the columns are to have day, model, and prompt_tokens with completion_tokens, or tokens',
    )
  }
  return (line) => {
    const cells = cellsOf(line)
    if (cells.length !== titles.length) {
      throw new BadLine(`it has ${cells.length} columns, and there are ${titles.length} titles`)
    }
    return (name) => cells[columns.get(name) ?? -1]?.trim() || undefined
  }
}

/** RFC 4180, except that a cell has no line breaks. */
function cellsOf(line: string): readonly string[] {
  if (!line.includes('"')) return line.split(',')
  const cells: string[] = []
  const cell = /(?:"((?:[^"]|"")*)"|([^",]*))(,|$)/y
  for (;;) {
    const found = cell.exec(line)
    if (!found) throw new BadLine('its quotes do not fit')
    cells.push(found[1]?.replaceAll('""', '"') ?? found[2] ?? '')
    if (found[3] === '') return cells
  }
}

function countOf(valueOf: ValueOf, calendar: Calendar): DayCount {
  const day = dayOf(valueOf('day'), calendar)
  const model = valueOf('model')
  if (typeof model !== 'string' || model === '') throw new BadLine('there is no model')
  if (model.length > 200) throw new BadLine('the name of the model has more than 200 characters')
  const [prompt, completion] = [tokensOf(valueOf, 'prompt'), tokensOf(valueOf, 'completion')]
  if (prompt !== undefined && completion !== undefined) {
    return { day, model, split: { prompt, completion }, tokens: prompt + completion }
  }
  const tokens = tokensOf(valueOf, 'tokens')
  if (tokens !== undefined) return { day, model, tokens }
  throw new BadLine('there is neither prompt_tokens with completion_tokens nor tokens')
}

/** A day, a time with its zone, or Unix seconds. */
function dayOf(value: unknown, calendar: Calendar): string {
  const text = typeof value === 'number' ? String(value) : value
  if (typeof text === 'string') {
    if (midnightOf(text) !== undefined) return text
    // Date.parse takes the 30th of February for the 2nd of March.
    const hasDay = midnightOf(text.slice(0, 10)) !== undefined
    const isTime = hasDay && /^.{10}[T ]\d\d:\d\d.*(Z|[+-]\d\d:?\d\d)$/.test(text)
    const ms = isTime
      ? Date.parse(text)
      : /^\d{9,11}(\.\d+)?$/.test(text)
        ? Number(text) * 1000
        : Number.NaN
    if (!Number.isNaN(ms)) return calendar.dayAt(ms)
  }
  throw new BadLine(`${shown(value)} is no day. Write 2026-11-20, or a time with its zone`)
}

function tokensOf(valueOf: ValueOf, name: Name): number | undefined {
  const value = valueOf(name)
  if (value === undefined) return undefined
  const isPlain = typeof value === 'number' || (typeof value === 'string' && /^\d+$/.test(value))
  const tokens = isPlain ? Number(value) : Number.NaN
  if (Number.isSafeInteger(tokens) && tokens >= 0) return tokens
  throw new BadLine(`${shown(value)} is no number of tokens`)
}

function shown(value: unknown): string {
  return (JSON.stringify(value) ?? 'nothing').slice(0, 60)
}
