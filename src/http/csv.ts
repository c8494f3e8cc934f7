// Answers as CSV (RFC 4180): UTF-8, commas, CRLF, a line of titles. Promises that a spreadsheet takes no text for a
// formula, that numbers stay numbers, and that each original text can be restored. An answer takes the memory of one
// piece, however long it is.

import { Readable } from 'node:stream'
import type { Answer } from '../exchange.ts'

export type Cell = string | number | boolean | undefined

export interface CsvColumn<Row> {
  readonly title: string
  cell(row: Row): Cell
}

/** The lines of all rows, piece by piece, the titles first. A piece may be empty, and so may a cell. */
export async function* csvLines<Row>(
  columns: readonly CsvColumn<Row>[],
  pieces: AsyncIterable<readonly Row[]>,
): AsyncGenerator<string> {
  yield line(columns.map(({ title }) => title))
  for await (const rows of pieces) {
    // Yields for a piece without rows, too: a generator whose reader has left can end only where it yields.
    yield rows.map((row) => line(columns.map(({ cell }) => cell(row)))).join('')
  }
}

/**
 * A text that begins like this is a formula in some spreadsheet. One with apostrophes before it matches, too: so
 * whoever takes one apostrophe away has the original again.
 */
const formula = /^'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/

/** Puts an apostrophe before what might be a formula: spreadsheets show such a text as it is. */
export function defused(text: string): string {
  return formula.test(text) ? `'${text}` : text
}

const quoted = /[",\r\n]|^\s|\s$/

function line(cells: readonly Cell[]): string {
  return `${cells.map(written).join(',')}\r\n`
}

function written(cell: Cell): string {
  if (typeof cell !== 'string') return cell === undefined ? '' : String(cell)
  const text = defused(cell)
  return quoted.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** The lines are made as the client takes them, none before; if it leaves, or they break, the answer never looks whole. */
export function csvAnswer(name: string, lines: AsyncIterable<string>): Answer {
  const headers = {
    'Content-Type': 'text/csv; charset=utf-8; header=present',
    'Content-Disposition': `attachment; filename="${name}.csv"`,
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
  }
  const content = Readable.from(lines, { objectMode: false, highWaterMark: pieceBytes })
  return { status: 200, headers, content }
}

const pieceBytes = 64 * 1024
