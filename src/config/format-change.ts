// A change of a configuration as a line of text. Apart from diff.ts, so that a command that only prints what a gateway
// has told loads no schemas.

interface Told {
  readonly path: string
  readonly from?: unknown
  readonly to?: unknown
}

/** `models.a.price.input: 1 → 2`; `models.b: added`. */
export function formatChange({ path, from, to }: Told): string {
  if (from === undefined) return `${path}: added${isShort(to) ? `, ${JSON.stringify(to)}` : ''}`
  if (to === undefined) return `${path}: removed`
  if (JSON.stringify(from) === JSON.stringify(to)) return `${path}: changed, and is not shown`
  return isShort(from) && isShort(to)
    ? `${path}: ${JSON.stringify(from)} → ${JSON.stringify(to)}`
    : `${path}: changed`
}

function isShort(value: unknown): boolean {
  return JSON.stringify(value).length <= 100
}
