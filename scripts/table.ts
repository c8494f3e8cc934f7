// Prints lines of results as a Markdown table, aligned for people.

export type Row = readonly (string | number)[]

export function table(head: readonly string[], rows: readonly Row[]): string {
  const isNumber = head.map((_, i) => rows.length > 0 && rows.every((row) => isCount(row[i])))
  const texts = rows.map((row) => row.map((cell) => shown(cell)))
  const widths = head.map((title, i) =>
    Math.max(title.length, ...texts.map((row) => row[i]?.length ?? 0), 3),
  )
  const pad = (text: string, i: number) =>
    isNumber[i] ? text.padStart(widths[i] ?? 0) : text.padEnd(widths[i] ?? 0)
  const line = (cells: readonly string[]) => `| ${cells.map(pad).join(' | ')} |`
  const rule = widths.map((width, i) =>
    isNumber[i] ? '-'.repeat(width - 1) + ':' : '-'.repeat(width),
  )
  return [line(head), `| ${rule.join(' | ')} |`, ...texts.map(line)].join('\n')
}

const isCount = (cell: string | number | undefined): boolean =>
  typeof cell === 'number' || cell === '–'

/** 1234567 as 1,234,567: English in every locale. */
function shown(cell: string | number): string {
  if (typeof cell === 'string') return cell
  return Number.isInteger(cell) ? cell.toLocaleString('en') : cell.toFixed(2)
}
