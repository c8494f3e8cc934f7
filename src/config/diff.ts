// What two configurations differ in, key by key, and each change as a line of text. Compares what `check --print`
// shows; where that output masks a secret or names a file, marks tell whether the text behind it has changed.

import { formatPath } from './problem.ts'
import type { Path } from './problem.ts'
import { needsRestart } from './restart.ts'
import type { ValueChange } from './restart.ts'

/** A configuration as it may be shown. */
export interface Shown {
  /** In the file's notation, with defaults, secrets masked. */
  readonly effective: unknown
  /** By path: digests of secrets, of PEM files and of the files of an operator's own plugin. */
  readonly marks: Readonly<Record<string, string>>
}

export interface Change extends ValueChange {
  readonly needsRestart: boolean
}

export function changesBetween(from: Shown, to: Shown): readonly Change[] {
  const changes = differences(inLong(from.effective), inLong(to.effective), [])
  const told = new Set(changes.map(({ path }) => formatPath(path)))
  const behind = Object.keys(from.marks).flatMap((key) => {
    const path = JSON.parse(key) as Path
    if (sameMark(from.marks[key], to.marks[key]) || isTold(told, path)) return []
    const value = valueAt(to.effective, path)
    return [{ path, from: value, to: value }]
  })
  return [...changes, ...behind].map((change) => ({
    ...change,
    needsRestart: needsRestart(change),
  }))
}

/** What runs after a reload: `next`, but for the keys that need a restart. */
export function withoutRestart(running: Shown, next: Shown): Shown {
  const effective = structuredClone(inLong(next.effective))
  const marks = { ...next.marks }
  for (const { path, from } of changesBetween(running, next).filter((one) => one.needsRestart)) {
    setAt(effective, path, from)
    const key = JSON.stringify(path)
    const mark = running.marks[key]
    if (mark !== undefined) marks[key] = mark
  }
  return { effective, marks }
}

function setAt(tree: unknown, path: Path, value: unknown): void {
  const block = valueAt(tree, path.slice(0, -1))
  if (typeof block !== 'object' || block === null) return
  const key = String(path.at(-1))
  if (value === undefined) Reflect.deleteProperty(block, key)
  else Reflect.set(block, key, value)
}

/** `listen: 8080` as a block, so that it can be compared with one. */
function inLong(effective: unknown): unknown {
  if (!isBlock(effective) || typeof effective.listen !== 'number') return effective
  const listen = { host: '0.0.0.0', port: effective.listen, trusted_proxies: [] }
  return { ...effective, listen }
}

function differences(from: unknown, to: unknown, path: Path): readonly ValueChange[] {
  if (isBlock(from) && isBlock(to)) {
    const keys = new Set([...Object.keys(from), ...Object.keys(to)])
    return [...keys].flatMap((key) => differences(from[key], to[key], [...path, key]))
  }
  if (isBlockList(from) && isBlockList(to)) {
    const longer = from.length > to.length ? from : to
    return longer.flatMap((_, i) => differences(from[i], to[i], [...path, i]))
  }
  return JSON.stringify(from) === JSON.stringify(to) ? [] : [{ path, from, to }]
}

/** Lists of texts and numbers are compared as a whole. */
function isBlockList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value) && value.some(isBlock)
}

function isBlock(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The admin API shortens marks. A mark that one side does not have tells nothing. */
function sameMark(one: string | undefined, other: string | undefined): boolean {
  if (one === undefined || other === undefined) return true
  return one.startsWith(other) || other.startsWith(one)
}

function isTold(told: ReadonlySet<string>, path: Path): boolean {
  return path.some((_, i) => told.has(formatPath(path.slice(0, i + 1))))
}

export function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (at, step) =>
      typeof at === 'object' && at !== null ? Reflect.get(at, String(step)) : undefined,
    value,
  )
}

/** A change as the admin API tells it. */
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
