// Reads a backend's count, a file of any size: its lines are summed by day and model. Nothing is compared if one of them
// can't be read, because a sum without it would be wrong.

import { createReadStream } from 'node:fs'
import { codeOf } from '../../errors.ts'
import { plural, usageError } from '../command.ts'
import type { Calendar } from './calendar.ts'
import { linesOf, maxLineChars } from './lines.ts'
import type { Models } from './models.ts'
import { BadLine, FormatError, hasCount, readerOf } from './rows.ts'
import { DayTally } from './tally.ts'
import type { DayCount } from './tally.ts'

export interface CountOptions {
  readonly calendar: Calendar
  readonly models: Models
  /** Whether the operator has asked for this day and these models. */
  isWanted(count: DayCount): boolean
  /** The days that the ledger can tell of. */
  readonly oldest: string
  readonly newest: string
  readonly signal: AbortSignal | undefined
}

export interface BackendCount {
  readonly tally: DayTally
  /** Lines that were summed, and those that were not wanted. */
  readonly lines: number
  readonly ignored: number
}

/** How many bad lines are shown, from the first on. */
const maxShown = 10

export async function readBackendCount(file: string, options: CountOptions): Promise<BackendCount> {
  const text = createReadStream(file, { encoding: 'utf8', signal: options.signal })
  const reading = new Reading(options)
  const bad: string[] = []
  let [number, badLines] = [0, 0]
  try {
    for await (const lines of linesOf(text)) {
      for (const line of lines) {
        number++
        const problem = reading.problemOf(line)
        if (problem === undefined) continue
        if (++badLines <= maxShown) bad.push(`${file}:${number}: ${problem}`)
      }
    }
  } catch (error) {
    if (error instanceof FormatError) throw usageError(`${file}:${number}: ${error.message}.`)
    throw unreadable(file, error)
  }
  if (badLines > 0) {
    throw usageError(`${bad.join('\n')}\n${plural(badLines, 'bad line')}: nothing was compared.`)
  }
  return reading
}

class Reading implements BackendCount {
  readonly tally = new DayTally()
  lines = 0
  ignored = 0
  readonly #options: CountOptions
  #read: ((line: string) => DayCount) | undefined

  constructor(options: CountOptions) {
    this.#options = options
  }

  /** Takes a line; returns what is wrong with it. */
  problemOf(line: string): string | undefined {
    try {
      if (line.trim() !== '') this.#take(line)
      return undefined
    } catch (error) {
      if (error instanceof BadLine || error instanceof RangeError) return error.message
      throw error
    }
  }

  #take(line: string): void {
    if (line.length > maxLineChars) throw new BadLine(`it has more than ${maxLineChars} characters`)
    if (!this.#read) {
      this.#read = readerOf(line, this.#options.calendar)
      if (!hasCount(line)) return
    }
    const { day, model, ...tokens } = this.#read(line)
    const count = { day, model: this.#options.models.ofBackend(model), ...tokens }
    if (!this.#options.isWanted(count)) {
      this.ignored++
      return
    }
    refuseUnknownDay(day, this.#options)
    this.tally.add(count)
    this.lines++
  }
}

function refuseUnknownDay(day: string, { oldest, newest }: CountOptions): void {
  if (day > newest) throw new BadLine(`${day} is in the future`)
  if (day < oldest) {
    throw new BadLine(`the ledger's sums go back to ${oldest}, and this is ${day}. Give --from`)
  }
}

function unreadable(file: string, error: unknown): unknown {
  const code = codeOf(error)
  return code === '' || code === 'ABORT_ERR'
    ? error
    : usageError(`${file} cannot be read (${code})`)
}
