// Prints a table with aligned columns.

export function print(lines: readonly (readonly string[])[]): void {
  const widths = lines[0]?.map((_, i) => Math.max(...lines.map((line) => (line[i] ?? '').length)))
  for (const line of lines) {
    const cells = line.map((text, i) => text.padEnd(widths?.[i] ?? 0))
    console.log(cells.join('  ').trimEnd())
  }
}
