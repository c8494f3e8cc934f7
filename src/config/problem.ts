// A problem of a configuration file, and its text: one line, with the place that an editor can jump to.

export type Path = readonly (string | number)[]

export interface Position {
  /** From 1. */
  readonly line: number
  readonly column: number
}

export interface Problem extends Position {
  readonly file: string
  readonly path: Path
  /** What is wrong and what would be right. Never shows a secret. */
  readonly message: string
}

/** `gateway.yaml:12:7: models.assistant.price.inptu: unknown key; did you mean "input"?` */
export function formatProblem({ file, line, column, path, message }: Problem): string {
  const where = path.length > 0 ? `${formatPath(path)}: ` : ''
  return `${file}:${line}:${column}: ${where}${message}`
}

export function formatPath(path: Path): string {
  return path.map(formatStep).join('').replace(/^\./, '')
}

function formatStep(step: string | number): string {
  if (typeof step === 'number') return `[${step}]`
  return /^[\p{L}\p{N}_*@:-][\p{L}\p{N}_./*@:-]*$/u.test(step)
    ? `.${step}`
    : `[${JSON.stringify(step)}]`
}

/** The candidate that the writer probably meant; returns undefined when none is similar enough. */
export function suggest(text: string, candidates: readonly string[]): string | undefined {
  const plain = normalise(text)
  const ranked = candidates
    .map((candidate) => ({ candidate, distance: editDistance(plain, normalise(candidate)) }))
    .filter(({ candidate, distance }) => distance <= Math.max(1, Math.floor(candidate.length / 3)))
    .toSorted((a, b) => a.distance - b.distance)
  return ranked[0]?.candidate
}

export function didYouMean(text: string, candidates: readonly string[]): string {
  const meant = suggest(text, candidates)
  return meant === undefined ? '' : `; did you mean "${meant}"?`
}

function normalise(text: string): string {
  return text.toLowerCase().replace(/[-_ ]/g, '')
}

/** Letters added, dropped, replaced or swapped with their neighbour, each counting one. */
function editDistance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 8) return Infinity
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)]
  const cell = (i: number, j: number) => rows[i]?.[j] ?? Infinity
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    rows.push(row)
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      const replaced = cell(i - 1, j - 1) + (same ? 0 : 1)
      const best = Math.min(cell(i - 1, j) + 1, cell(i, j - 1) + 1, replaced)
      row.push(swapped ? Math.min(best, cell(i - 2, j - 2) + 1) : best)
    }
  }
  return cell(a.length, b.length)
}
