// Replaces ${NAME}, ${NAME:-default} and ${file:PATH} inside a tree's string values. It runs after parsing, so that no
// value can add keys, change types or close quotes. It changes no keys, and does not replace inside replaced text.

import { resolve } from 'node:path'
import type { Path } from './problem.ts'
import { ReadFiles } from './read-files.ts'
import type { TreeProblem, Tree } from './tree.ts'

export interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Relative paths start here. */
  readonly folder: string
  readonly files?: ReadFiles
}

export async function substitute(
  tree: Tree,
  around: Surroundings,
): Promise<{ readonly tree: Tree; readonly problems: readonly TreeProblem[] }> {
  const problems: TreeProblem[] = []
  const visit = async (node: Tree, path: Path): Promise<Tree> => {
    if (node.kind === 'list') {
      const items = await Promise.all(node.items.map((item, i) => visit(item, [...path, i])))
      return { ...node, items }
    }
    if (node.kind === 'map') {
      const fill = async (entry: (typeof node.entries)[number]) => ({
        ...entry,
        value: await visit(entry.value, [...path, entry.key]),
      })
      return { ...node, entries: await Promise.all(node.entries.map(fill)) }
    }
    if (typeof node.value !== 'string' || !node.value.includes('${')) return node
    const { text, faults } = await replaceIn(node.value, around)
    problems.push(...faults.map((message) => ({ ...node.at, path, message })))
    // A scalar with a fault keeps its place, but its value becomes null, so that nothing else checks it.
    return { ...node, ...(faults.length > 0 ? { value: null } : { value: text, replaced: true }) }
  }
  return { tree: await visit(tree, []), problems }
}

async function replaceIn(
  value: string,
  around: Surroundings,
): Promise<{ readonly text: string; readonly faults: readonly string[] }> {
  const faults: string[] = []
  const parts: string[] = []
  let end = 0
  for (const match of value.matchAll(/\$\$\{|\$\{([^}]*)\}|\$\{/g)) {
    const part = match[0] === '$${' ? { text: '${' } : await lookUp(match[1], around)
    parts.push(value.slice(end, match.index))
    if ('text' in part) parts.push(part.text)
    else faults.push(part.fault)
    end = match.index + match[0].length
  }
  return { text: parts.join('') + value.slice(end), faults }
}

async function lookUp(
  inside: string | undefined,
  { env, folder, files }: Surroundings,
): Promise<ReadText> {
  const file = /^file:(.+)$/s.exec(inside ?? '')?.[1]
  if (file !== undefined) {
    const read = await readText(resolve(folder, file), files)
    if ('fault' in read) return { fault: `\${file:${file}} cannot be read: ${read.fault}` }
    // Editors and `echo` end a file with a line feed that is not part of the secret.
    return { text: read.text.replace(/\r?\n$/, '') }
  }
  const [, name, fallback] = /^([A-Za-z_]\w*)(?::-(.*))?$/s.exec(inside ?? '') ?? []
  if (name === undefined) {
    return { fault: 'write ${NAME}, ${NAME:-default} or ${file:PATH}; a literal "${" is "$${"' }
  }
  const value = Object.hasOwn(env, name) ? env[name] : undefined
  if (fallback !== undefined) return { text: value || fallback }
  if (value === undefined) {
    return { fault: `the environment has no ${name}; set it, or write \${${name}:-default}` }
  }
  return { text: value }
}

type ReadText = { readonly text: string } | { readonly fault: string }

/** Reads a text file, or says in words why it cannot be read: Node's message would repeat the absolute path. */
export async function readText(path: string, files = new ReadFiles()): Promise<ReadText> {
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(await files.read(path)) }
  } catch (error) {
    return { fault: whyUnreadable(error) }
  }
}

export function whyUnreadable(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'ENOENT') return 'there is no such file'
  if (code === 'EACCES') return 'permission denied'
  if (code === 'EISDIR') return 'it is a folder'
  if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA') return 'it is not UTF-8 text'
  return String(code ?? error)
}
