// Reads gateway.yaml: gives all of its problems, each with its position, or a frozen Config. Reads the file and the files
// that it names, and changes nothing; never throws because of a file's content.

import { dirname, resolve } from 'node:path'
import { block, crossCheck, warningsOf } from './check.ts'
import type { Config } from './config.ts'
import { derive } from './derive.ts'
import { effectiveOf } from './effective.ts'
import { explain, findings, show, type SchemaFinding } from './explain.ts'
import { gatewayKeys, type PluginKeys } from './keys.ts'
import { readPems } from './pem.ts'
import { suggest, type Path, type Problem } from './problem.ts'
import { resolveConfig } from './resolve.ts'
import { z } from './schema.ts'
import { fit } from './shape.ts'
import { readText, substitute } from './substitute.ts'
import { parseTree, positionAt, treeAt, type TreeProblem, type Tree } from './tree.ts'

export interface LoadOptions {
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Imports an operator's own plugin, which the file names by its path under `plugins:`. If it fails, that key has a problem. */
  readonly loadPlugin?: (absolutePath: string) => Promise<PluginKeys>
}

export type Loaded =
  | {
      readonly config: Config
      /** In the file's notation, with defaults, secrets masked. */
      readonly effective: unknown
      /** Settings that are valid but perhaps not intended. */
      readonly warnings: readonly Problem[]
    }
  | { readonly problems: readonly Problem[] }

export async function loadConfig(
  file: string,
  plugins: readonly PluginKeys[],
  { env = process.env, loadPlugin }: LoadOptions = {},
): Promise<Loaded> {
  const folder = dirname(resolve(file))
  const read = await readText(file)
  if ('fault' in read) {
    const message = `the file cannot be read: ${read.fault}`
    return { problems: [{ file, line: 1, column: 1, path: [], message }] }
  }
  const parsed = parseTree(read.text)
  const { tree, problems: unset } = await substitute(parsed.tree, { env, folder })
  const report = new Report(file, tree)
  report.add(parsed.problems)
  // If the file is not valid YAML, there are no keys to check.
  if (parsed.problems.some(({ path }) => path.length === 0)) return { problems: report.sorted() }
  report.add(unset)

  const own = await ownPlugins(tree, plugins, { folder, loadPlugin })
  report.addFindings(own.findings)
  const all = new Map([...plugins.map((plugin) => [plugin.name, plugin] as const), ...own.loaded])
  const schema = gatewayKeys([...all].map(([name, plugin]) => ({ name, schema: plugin.schema })))

  const fitted = fit(schema, tree, (path) => resolve(folder, path))
  report.add(fitted.problems)
  report.hide(fitted.secrets)
  const pems = await readPems(fitted.files)
  report.addFindings(await faultsOf(schema, fitted.value, tree))
  report.addFindings([...pems.findings, ...crossCheck(fitted.value)])
  const problems = report.sorted()
  if (problems.length > 0) return { problems }
  const derived = derive(block(fitted.value))
  const keys = await schema.parseAsync(derived)
  const config = resolveConfig(keys, { file, pems: pems.texts, plugins: all })
  const warnings = warningsOf(config).map((one) => ({
    file,
    ...positionAt(tree, one.path),
    ...one,
  }))
  return { config, effective: effectiveOf(schema, derived), warnings }
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

async function ownPlugins(
  tree: Tree,
  builtIn: readonly PluginKeys[],
  {
    folder,
    loadPlugin,
  }: { readonly folder: string; readonly loadPlugin: LoadOptions['loadPlugin'] },
): Promise<{
  readonly loaded: ReadonlyMap<string, PluginKeys>
  readonly findings: readonly SchemaFinding[]
}> {
  const block = treeAt(tree, ['plugins'])
  const loaded = new Map<string, PluginKeys>()
  const findings: SchemaFinding[] = []
  const names = new Set(builtIn.map(({ name }) => name))
  for (const { key } of block?.kind === 'map' ? block.entries : []) {
    if (!/^(\.{1,2})?\//.test(key)) continue
    const value = treeAt(tree, ['plugins', key])
    if (value?.kind === 'scalar' && value.value === false) {
      loaded.set(key, { name: key, schema: z.literal(false) })
      continue
    }
    try {
      if (!loadPlugin) throw new Error('plugins of your own cannot be loaded here')
      const plugin = await loadPlugin(resolve(folder, key))
      if (names.has(plugin.name)) throw new Error(`there is a plugin "${plugin.name}" already`)
      names.add(plugin.name)
      loaded.set(key, plugin)
    } catch (thrown) {
      const message = `cannot be loaded: ${thrown instanceof Error ? thrown.message : String(thrown)}`
      findings.push({ path: ['plugins', key], message, atKey: true })
    }
  }
  return { loaded, findings }
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
