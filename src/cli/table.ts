// Tables for people, and the format of numbers and times in them. Control characters never reach the terminal.

export interface Column<T> {
  readonly title: string
  readonly isNumber?: boolean
  cell(row: T): string
}

/** Two spaces between columns, numbers to the right. Without rows, only the titles. */
export function table<T>(columns: readonly Column<T>[], rows: readonly T[]): string {
  return createTable(columns)(rows)
}

/** The same for rows that come page by page, with the titles before the first page. A column gets wider with a longer text, and never narrower. */
export function createTable<T>(columns: readonly Column<T>[]): (rows: readonly T[]) => string {
  let titles = [columns.map(({ title }) => title)]
  const widths = columns.map(() => 0)
  return (rows) => {
    const lines = [...titles, ...rows.map((row) => columns.map(({ cell }) => clean(cell(row))))]
    titles = []
    for (const line of lines)
      line.forEach((text, i) => (widths[i] = Math.max(widths[i] ?? 0, width(text))))
    return lines.map((line) => formatLine(line, columns, widths)).join('')
  }
}

function formatLine(
  cells: readonly string[],
  columns: readonly { readonly isNumber?: boolean }[],
  widths: readonly number[],
): string {
  const padded = cells.map((cell, i) => {
    const space = ' '.repeat((widths[i] ?? 0) - width(cell))
    return columns[i]?.isNumber ? space + cell : cell + space
  })
  return `${padded.join('  ').trimEnd()}\n`
}

/** One row as names and values below each other. */
export function card(fields: Readonly<Record<string, string>>): string {
  const longest = Math.max(...Object.keys(fields).map((name) => name.length))
  return Object.entries(fields)
    .map(([name, value]) => `${name.padEnd(longest)}  ${clean(value)}`.trimEnd() + '\n')
    .join('')
}

/** Replaces control characters: otherwise a name or a note could move the cursor or set the terminal's title. */
export function clean(text: string): string {
  return text.replace(/[\p{Cc}\p{Cs}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu, '\ufffd')
}

/** The same for a message, which keeps its lines. */
export function cleanLines(text: string): string {
  return text.split('\n').map(clean).join('\n')
}

const wide =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\uff01-\uff60]/u

/** How many columns the text takes on a terminal. */
function width(text: string): number {
  let sum = 0
  for (const char of text) sum += wide.test(char) ? 2 : /\p{M}/u.test(char) ? 0 : 1
  return sum
}

/** `1,000,000`; `-` where there is none. */
export function formatAmount(amount: number | null = null): string {
  return amount === null ? '-' : String(amount).replace(/\B(?=(\d{3})+$)/g, ',')
}

/** `+500`, `-20`. */
export function formatChange(amount: number): string {
  return amount > 0 ? `+${formatAmount(amount)}` : formatAmount(amount)
}

/** `2026-11-20 13:04:05Z`. */
export function formatTime(seconds: number | null): string {
  if (seconds === null) return '-'
  return new Date(seconds * 1000).toISOString().replace('T', ' ').replace('.000Z', 'Z')
}
