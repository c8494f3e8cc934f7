// Reads gateway.yaml: gives all of its problems, each with its position, or a frozen Config. Reads the file and the files
// that it names, and changes nothing; never throws because of a file's content.

import { dirname, resolve } from 'node:path'
import { messageOf } from '../errors.ts'
import { block, crossCheck, warningsOf } from './check.ts'
import type { Config } from './config.ts'
import { derive } from './derive.ts'
import { valueAt, type Shown } from './diff.ts'
import { effectiveOf } from './effective.ts'
import { explain, findings, show, type SchemaFinding } from './explain.ts'
import { gatewayKeys, type PluginKeys } from './keys.ts'
import { readPems } from './pem.ts'
import { suggest, type Path, type Position, type Problem } from './problem.ts'
import { digestOf, ReadFiles, type FileContents, type FileDigests } from './read-files.ts'
import { resolveConfig } from './resolve.ts'
import { z } from './schema.ts'
import { fit, type Fitted } from './shape.ts'
import { readText, substitute } from './substitute.ts'
import { parseTree, positionAt, treeAt, type TreeProblem, type Tree } from './tree.ts'

export interface LoadOptions {
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Read in place of the files. */
  readonly given?: FileContents
  /** How many workers run, whatever the file says by now; by default as many as it says. */
  readonly running?: number
  /** Imports an operator's own plugin, which the file names by its path under `plugins:`. If it fails, that key has a problem. */
  readonly loadPlugin?: (absolutePath: string, files: ReadFiles) => Promise<PluginKeys>
}

export interface LoadedConfig extends Shown {
  readonly config: Config
  /** Settings that are valid but perhaps not intended. */
  readonly warnings: readonly Problem[]
  /** The file itself and all files that it names, as they were read. */
  readonly files: FileDigests
  readonly contents: FileContents
  /** Where a key stands in the file, or the block that would have it. */
  position(path: Path): Position
}

export type Loaded =
  LoadedConfig | { readonly problems: readonly Problem[]; readonly files: FileDigests }

export async function loadConfig(
  file: string,
  plugins: readonly PluginKeys[],
  { env = process.env, loadPlugin, given, running }: LoadOptions = {},
): Promise<Loaded> {
  const folder = dirname(resolve(file))
  const files = new ReadFiles(given && { given })
  const read = await readText(resolve(file), files)
  if ('fault' in read) {
    const message = `the file cannot be read: ${read.fault}`
    return { problems: [{ file, line: 1, column: 1, path: [], message }], files: files.digests }
  }
  const parsed = parseTree(read.text)
  const { tree, problems: unset } = await substitute(parsed.tree, { env, folder, files })
  const report = new Report(file, tree)
  report.add(parsed.problems)
  // If the file is not valid YAML, there are no keys to check.
  if (parsed.problems.some(({ path }) => path.length === 0)) {
    return { problems: report.sorted(), files: files.digests }
  }
  report.add(unset)

  const own = await ownPlugins(tree, plugins, { folder, loadPlugin, files })
  report.addFindings(own.findings)
  const all = new Map([...plugins.map((plugin) => [plugin.name, plugin] as const), ...own.loaded])
  const schema = gatewayKeys([...all].map(([name, plugin]) => ({ name, schema: plugin.schema })))

  const fitted = fit(schema, tree, (path) => resolve(folder, path))
  report.add(fitted.problems)
  report.hide(fitted.secrets)
  const pems = await readPems(fitted.files, files)
  report.addFindings(await faultsOf(schema, fitted.value, tree))
  report.addFindings([...pems.findings, ...crossCheck(fitted.value, running)])
  const problems = report.sorted()
  if (problems.length > 0) return { problems, files: files.digests }
  const derived = derive(block(fitted.value), running)
  const keys = await schema.parseAsync(derived)
  const config = resolveConfig(keys, { file, pems: pems.texts, plugins: all })
  const warnings = [...warningsOf(config), ...pems.warnings].map((one) => ({
    file,
    ...positionAt(tree, one.path),
    ...one,
  }))
  return {
    config,
    effective: effectiveOf(schema, derived),
    marks: marksOf(fitted, { texts: pems.texts, plugins: own.digests }),
    warnings,
    files: files.digests,
    contents: files.contents,
    position: (path) => positionAt(tree, path, 'key'),
  }
}

interface Texts {
  /** PEM texts by absolute path. */
  readonly texts: ReadonlyMap<string, string>
  /** Digests of an operator's own plugins by their keys in the file. */
  readonly plugins: ReadonlyMap<string, string>
}

/** A mark for each value that the effective configuration does not show. */
function marksOf({ value, secrets, files }: Fitted, { texts, plugins }: Texts): Shown['marks'] {
  const hidden = [...secrets].map((key) => {
    const text = valueAt(value, JSON.parse(key) as Path)
    return [key, digestOf(JSON.stringify(text) ?? '')] as const
  })
  const pems = files.map(
    ({ path, file }) => [JSON.stringify(path), digestOf(texts.get(file) ?? '')] as const,
  )
  const own = [...plugins].map(
    ([key, digest]) => [JSON.stringify(['plugins', key]), digest] as const,
  )
  return Object.fromEntries([...hidden, ...pems, ...own])
}

async function faultsOf(
  schema: ReturnType<typeof gatewayKeys>,
  value: unknown,
  tree: Tree,
): Promise<readonly SchemaFinding[]> {
  const hidden = replacedValues(tree)
  const error = explain((input) => typeof input !== 'object' && hidden.has(String(input)))
  try {
    const result = await schema.safeParseAsync(value, { error })
    return result.success ? [] : findings(result.error.issues)
  } catch (thrown) {
    // Only the schema of an operator's plugin can throw.
    const message = `a plugin's schema failed: ${thrown instanceof Error ? thrown.message : 'it threw'}`
    return [{ path: ['plugins'], message, atKey: true }]
  }
}

/** The texts that came from the environment or a file: each may be a secret, whatever its key is. */
function replacedValues(tree: Tree): ReadonlySet<string> {
  if (tree.kind === 'scalar') return new Set(tree.replaced ? [String(tree.value)] : [])
  const children = tree.kind === 'list' ? tree.items : tree.entries.map(({ value }) => value)
  return new Set(children.flatMap((child) => [...replacedValues(child)]))
}

interface PluginLoading extends Pick<LoadOptions, 'loadPlugin'> {
  readonly folder: string
  readonly files: ReadFiles
}

async function ownPlugins(
  tree: Tree,
  builtIn: readonly PluginKeys[],
  { folder, loadPlugin, files }: PluginLoading,
): Promise<{
  readonly loaded: ReadonlyMap<string, PluginKeys>
  readonly digests: ReadonlyMap<string, string>
  readonly findings: readonly SchemaFinding[]
}> {
  const block = treeAt(tree, ['plugins'])
  const loaded = new Map<string, PluginKeys>()
  const digests = new Map<string, string>()
  const findings: SchemaFinding[] = []
  const names = new Set(builtIn.map(({ name }) => name))
  for (const { key, value } of block?.kind === 'map' ? block.entries : []) {
    if (!/^(\.{1,2})?\//.test(key)) continue
    if (value.kind === 'scalar' && value.value === false) {
      loaded.set(key, { name: key, schema: z.literal(false) })
      continue
    }
    try {
      if (!loadPlugin) throw new Error('plugins of your own cannot be loaded here')
      const part = files.part()
      const plugin = await loadPlugin(resolve(folder, key), part)
      digests.set(key, part.digest)
      if (names.has(plugin.name)) throw new Error(`there is a plugin "${plugin.name}" already`)
      names.add(plugin.name)
      loaded.set(key, plugin)
    } catch (thrown) {
      const message = `cannot be loaded: ${messageOf(thrown)}`
      findings.push({ path: ['plugins', key], message, atKey: true })
    }
  }
  return { loaded, digests, findings }
}

/** Collects problems, only the first for each path: later ones mostly follow from it. */
class Report {
  readonly #file: string
  readonly #tree: Tree
  #hidden: ReadonlySet<string> = new Set()
  readonly #problems = new Map<string, Problem>()

  constructor(file: string, tree: Tree) {
    this.#file = file
    this.#tree = tree
  }

  add(found: readonly TreeProblem[]): void {
    for (const { line, column, path, message } of found) {
      const key = JSON.stringify(path.length > 0 ? path : [line, column, message])
      if (!this.#problems.has(key)) {
        this.#problems.set(key, { file: this.#file, line, column, path, message })
      }
    }
  }

  addFindings(found: readonly SchemaFinding[]): void {
    for (const { path, message, atKey, or } of found) {
      const there = treeAt(this.#tree, path) !== undefined
      if (!there && this.#isExplained(path, or)) continue
      const position = positionAt(this.#tree, path, atKey ? 'key' : 'value')
      this.add([
        { ...position, path, message: there ? this.#withValue(path, message) : missing(message) },
      ])
    }
  }

  hide(paths: ReadonlySet<string>): void {
    this.#hidden = paths
  }

  sorted(): readonly Problem[] {
    return [...this.#problems.values()].toSorted((a, b) => a.line - b.line || a.column - b.column)
  }

  /** Puts the given value, if it is not a secret, before a message that only says what would be right. */
  #withValue(path: Path, message: string): string {
    const node = treeAt(this.#tree, path)
    if (!message.startsWith('write ') || node?.kind !== 'scalar') return message
    if (this.#hidden.has(JSON.stringify(path))) return `is not acceptable; ${message}`
    return `got ${typeof node.value === 'string' ? show(node.value) : node.source}; ${message}`
  }

  /** Whether a missing key needs no report: if `prise:` was reported as unknown, that `price` is missing says nothing new. */
  #isExplained(path: Path, or: readonly string[] = []): boolean {
    const keys = [String(path.at(-1)), ...or]
    const parent = JSON.stringify(path.slice(0, -1))
    return [...this.#problems.values()].some(
      (problem) =>
        JSON.stringify(problem.path.slice(0, -1)) === parent &&
        (problem.message.startsWith('is not supported yet') ||
          (problem.message.startsWith('unknown key') &&
            suggest(String(problem.path.at(-1)), keys) !== undefined)),
    )
  }
}

function missing(message: string): string {
  return message.startsWith('is missing') ? message : `is missing; ${message}`
}
