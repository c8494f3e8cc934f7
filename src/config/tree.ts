// A YAML document as a tree with the position of each key and value, and the source text of each number. The only file
// that imports `yaml`. Reads YAML 1.2 only; expands aliases, but refuses a file that they make too large.

import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  stringify,
  type Document,
  type YAMLMap,
} from 'yaml'
import type { Path, Position, Problem } from './problem.ts'

export interface MapTree {
  readonly kind: 'map'
  readonly at: Position
  readonly entries: readonly { readonly key: string; readonly at: Position; readonly value: Tree }[]
}

export interface ListTree {
  readonly kind: 'list'
  readonly at: Position
  readonly items: readonly Tree[]
}

export interface ScalarTree {
  readonly kind: 'scalar'
  readonly at: Position
  readonly value: string | number | boolean | null
  /** The text in the file. */
  readonly source: string
  /** True when `value` came from the environment or a file, and so may be a secret. */
  readonly replaced?: boolean
}

export type Tree = MapTree | ListTree | ScalarTree

export type TreeProblem = Omit<Problem, 'file'>

/** Far more than any real file has, far less than an alias bomb makes. */
const maxNodes = 100_000
const maxDepth = 64

export function parseTree(text: string): {
  readonly tree: Tree
  readonly problems: readonly TreeProblem[]
} {
  const lines = new LineCounter()
  const start: Position = { line: 1, column: 1 }
  const empty: Tree = { kind: 'map', at: start, entries: [] }
  let doc: Document.Parsed
  try {
    doc = parseDocument(text, {
      lineCounter: lines,
      prettyErrors: false,
      version: '1.2',
      schema: 'core',
      uniqueKeys: false,
      logLevel: 'error',
    })
  } catch {
    // The parser is recursive: some thousand brackets overflow its stack.
    return { tree: empty, problems: [{ ...start, path: [], message: 'is nested too deeply' }] }
  }
  const faults = [...doc.errors, ...doc.warnings].map((fault) => ({
    ...positionOf(lines, fault.pos[0]),
    path: [],
    message:
      fault.code === 'MULTIPLE_DOCS'
        ? 'a second document begins here; remove the line or the rest'
        : `not valid YAML: ${firstLine(fault.message)}`,
  }))
  if (faults.length > 0) return { tree: empty, problems: faults }
  if (doc.contents === null) return { tree: empty, problems: [] }
  const reader = new TreeReader(lines)
  const tree = reader.read(doc.contents, [], 0)
  return { tree, problems: reader.problems }
}

export function printYaml(value: unknown): string {
  return stringify(value, { lineWidth: 0, aliasDuplicateObjects: false })
}

/** The position of the value at `path`, or of its key if `want` is `key`. If there is none, that of the deepest parent that exists. */
export function positionAt(tree: Tree, path: Path, want: 'key' | 'value' = 'value'): Position {
  let node = tree
  let position = node.at
  for (const [depth, step] of path.entries()) {
    const child = childOf(node, step)
    if (!child) return position
    const last = depth === path.length - 1
    position = !last || want === 'key' ? child.at : child.value.at
    node = child.value
  }
  return position
}

/** The tree's node at `path`, if there is one. */
export function treeAt(tree: Tree, path: Path): Tree | undefined {
  let node: Tree | undefined = tree
  for (const step of path) node = node && childOf(node, step)?.value
  return node
}

function childOf(tree: Tree, step: string | number): { at: Position; value: Tree } | undefined {
  if (tree.kind === 'map') return tree.entries.find((entry) => entry.key === String(step))
  const item = tree.kind === 'list' ? tree.items[Number(step)] : undefined
  return item && { at: item.at, value: item }
}

class TreeReader {
  readonly problems: TreeProblem[] = []
  readonly #lines: LineCounter
  readonly #anchors = new Map<string, Tree | undefined>()
  /** How many nodes each anchor stands for. */
  readonly #sizes = new Map<Tree, number>()
  /** How many nodes were read, with those that aliases repeat. */
  #nodes = 0
  #isTooLarge = false

  constructor(lines: LineCounter) {
    this.#lines = lines
  }

  read(node: unknown, path: Path, depth: number): Tree {
    const at = positionOf(this.#lines, rangeStart(node))
    if (depth > maxDepth) return this.#refuse(at, path, 'is nested too deeply')
    if (isAlias(node)) return this.#alias(node.source, at, path)
    const anchor = (isMap(node) || isSeq(node) || isScalar(node)) && node.anchor
    // An alias inside the node that it names finds `undefined` here, and is refused: it would never end.
    if (anchor) this.#anchors.set(anchor, undefined)
    const before = this.#nodes
    this.#nodes++
    const tree = this.#plain(node, at, { path, depth })
    if (anchor) {
      this.#anchors.set(anchor, tree)
      this.#sizes.set(tree, this.#nodes - before)
    }
    return tree
  }

  #alias(name: string, at: Position, path: Path): Tree {
    const tree = this.#anchors.get(name)
    if (!tree) return this.#refuse(at, path, `*${name} refers to nothing before it, or to itself`)
    this.#nodes += this.#sizes.get(tree) ?? 1
    if (this.#nodes <= maxNodes) return tree
    // Reported once: a bomb has thousands of aliases.
    if (!this.#isTooLarge) this.#refuse(at, path, 'aliases make the file too large')
    this.#isTooLarge = true
    return { kind: 'scalar', at, value: null, source: '' }
  }

  #plain(node: unknown, at: Position, { path, depth }: { path: Path; depth: number }): Tree {
    if (isMap(node)) return this.#map(node, at, { path, depth })
    if (isSeq(node)) {
      const items = node.items.map((item, i) => this.read(item, [...path, i], depth + 1))
      return { kind: 'list', at, items }
    }
    const value: unknown = isScalar(node) ? node.value : null
    const source = isScalar(node) ? (node.source ?? '') : ''
    return { kind: 'scalar', at, value: isPlainScalar(value) ? value : source, source }
  }

  #map(node: YAMLMap, at: Position, { path, depth }: { path: Path; depth: number }): Tree {
    const entries: { key: string; at: Position; value: Tree }[] = []
    for (const pair of node.items) {
      const keyAt = positionOf(this.#lines, rangeStart(pair.key) ?? rangeStart(node))
      const key = isScalar(pair.key) ? keyText(pair.key.value, pair.key.source) : undefined
      if (key === undefined || key === '__proto__') {
        this.#refuse(keyAt, path, 'has a key that is not a name')
        continue
      }
      const value = this.read(pair.value, [...path, key], depth + 1)
      const first = entries.find((entry) => entry.key === key)
      if (first) {
        this.#refuse(keyAt, [...path, key], `is there twice; first in line ${first.at.line}`)
        continue
      }
      // `key:` with nothing after it has no node of its own.
      const own = pair.value === null || isEmpty(value) ? { ...value, at: keyAt } : value
      entries.push({ key, at: keyAt, value: own })
    }
    return { kind: 'map', at, entries }
  }

  #refuse(at: Position, path: Path, message: string): Tree {
    this.problems.push({ ...at, path, message })
    return { kind: 'scalar', at, value: null, source: '' }
  }
}

function isEmpty(tree: Tree): boolean {
  return tree.kind === 'scalar' && tree.value === null && tree.source === ''
}

function isPlainScalar(value: unknown): value is string | number | boolean | null {
  return value === null || ['string', 'number', 'boolean'].includes(typeof value)
}

function keyText(value: unknown, source: string | undefined): string | undefined {
  if (typeof value === 'string') return value
  return value === null ? undefined : source
}

function rangeStart(node: unknown): number | undefined {
  const range =
    typeof node === 'object' && node !== null && 'range' in node ? node.range : undefined
  return Array.isArray(range) && typeof range[0] === 'number' ? range[0] : undefined
}

function positionOf(lines: LineCounter, offset: number | undefined): Position {
  const { line, col } = lines.linePos(offset ?? 0)
  return { line: Math.max(1, line), column: Math.max(1, col) }
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? ''
}
