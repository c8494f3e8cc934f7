// config/examples/full.yaml has every key that there is: the keys that it lacks are added, each at the end of its block.
// A key with a default gets that; one without, and all that is below it, stands there as a comment, to be completed by
// hand. What is there already stays as it is.

import { defaultOf, elementOf, optionsOf, shapeOf, valueOf } from '../src/config/shape.ts'
import type { Schema } from '../src/config/schema.ts'

export interface Key {
  /** `models.targets.url`: without the names that an operator chooses, and without positions in lists. */
  readonly path: string
  readonly schema: Schema
}

/** Every key that a schema knows, blocks before what is in them. */
export function keysOf(schema: Schema, block = ''): readonly Key[] {
  return optionsOf(schema).flatMap(({ core }): readonly Key[] => {
    const inner = elementOf(core) ?? valueOf(core)
    if (inner) return keysOf(inner, block)
    return Object.entries(shapeOf(core)).flatMap(([key, child]) => {
      const path = block === '' ? key : `${block}.${key}`
      return [{ path, schema: child }, ...keysOf(child, path)]
    })
  })
}

/** The names in full.yaml that an operator would choose. */
const names: ReadonlySet<string> = new Set(['assistant', 'default'])

interface Line {
  readonly text: string
  /** Undefined for a line without a key. */
  readonly path?: string
  readonly indent: number
  readonly isComment: boolean
}

/** The paths that a text in full.yaml's form has, those in comments too. */
export function pathsIn(text: string): ReadonlySet<string> {
  return new Set(linesOf(text).flatMap(({ path }) => path ?? []))
}

export function withAllKeys(text: string, keys: readonly Key[]): string {
  return keys.reduce(
    (whole, key) => (pathsIn(whole).has(key.path) ? whole : added(whole, key)),
    text,
  )
}

/** Of a comment, only a line that is indented as a key of a block is one: the text at the top is not. */
const keyLine = /^(?<comment># (?= ))?(?<indent> *)(?<item>- )?(?<key>[\w-]+):( |$)/

function linesOf(text: string): readonly Line[] {
  const above: { indent: number; key: string }[] = []
  return text
    .trimEnd()
    .split('\n')
    .map((line) => {
      const { comment, indent: spaces = '', item, key } = keyLine.exec(line)?.groups ?? {}
      const indent = spaces.length + (item?.length ?? 0)
      const isComment = comment !== undefined
      if (key === undefined || (isComment && above.length === 0)) {
        return { text: line, indent, isComment }
      }
      while ((above.at(-1)?.indent ?? -1) >= indent) above.pop()
      above.push({ indent, key })
      const path = above.map((one) => one.key).filter((name) => !names.has(name))
      return { text: line, path: path.join('.'), indent, isComment }
    })
}

function added(text: string, { path, schema }: Key): string {
  const lines = linesOf(text)
  const block = path.split('.').slice(0, -1).join('.')
  const isIn = (one: Line) => block === '' || `${one.path}.`.startsWith(`${block}.`)
  const end = lines.findLastIndex((one) => one.path !== undefined && isIn(one))
  const parent = lines.find((one) => one.path === block)
  const sibling = lines.find(
    (one) => isIn(one) && one.path?.split('.').length === path.split('.').length,
  )
  const indent = sibling?.indent ?? (parent?.indent ?? -2) + 2
  const preset = defaultOf(schema)
  const isComment = (sibling ?? parent)?.isComment === true || preset === undefined
  const value = preset === undefined ? '' : ` ${valueText(preset)}`
  const line = `${isComment ? '# ' : ''}${' '.repeat(indent)}${path.split('.').at(-1)}:${value}`
  const before = lines
    .slice(0, end + 1)
    .map((one) => (one === parent ? opened(one.text) : one.text))
  return [...before, line, ...lines.slice(end + 1).map((one) => one.text), ''].join('\n')
}

/** An empty block on its own line becomes one that has lines below. */
const opened = (line: string) => line.replace(/ \{\}$/, '')

function valueText(preset: unknown): string {
  const isPlain = typeof preset === 'string' && /^[0-9]*[a-z][\w.]*$/i.test(preset)
  return isPlain && !/^(true|false|null)$/.test(preset) ? preset : JSON.stringify(preset)
}
