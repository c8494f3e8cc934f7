// Imports an operator's own plugin by path: a module that exports `plugin`, in the shape of the built-in ones. Node keeps
// a module for ever under its URL. So a plugin whose files have changed is imported under a new URL, and the files that
// it imports by relative paths, too. Its packages and CommonJS modules stay what they were until a restart.

import { registerHooks } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Plugin } from '../plugin.ts'
import { within } from '../sharing/patience.ts'
import { digestsNow, ReadFiles, sameDigests } from './read-files.ts'
import type { FileDigests } from './read-files.ts'

const api = new URL('../plugin-api.ts', import.meta.url).href
/**
 * The gateway's own modules are not imported anew: a second copy would have errors and schemas that the first does not
 * know.
 */
const ours = new URL('..', import.meta.url).href

/** The files of each import, by its number. */
const filesOf = new Map<string, Set<string>>()

function numberOf(url: string | undefined): string | undefined {
  return /\?tollgate=(\d+)$/.exec(url ?? '')?.[1]
}

// A plugin's file may lie anywhere, and need not have this package in a node_modules above it.
registerHooks({
  resolve(specifier, context, next) {
    if (specifier === 'tollgate/plugin') return { url: api, shortCircuit: true }
    const found = next(specifier, context)
    const number = numberOf(context.parentURL)
    const isOfPlugin = number !== undefined && isFresh(found.url)
    if (!isOfPlugin) return found
    filesOf.get(number)?.add(fileURLToPath(found.url))
    return { ...found, url: `${found.url}?tollgate=${number}` }
  },
})

function isFresh(url: string): boolean {
  const isFile = url.startsWith('file:') && !url.includes('?')
  return isFile && !url.startsWith(ours) && !url.includes('/node_modules/')
}

interface Imported {
  readonly plugin: Plugin
  readonly files: FileDigests
}

/** How long a module may take to load. Long, because systemd does not start a gateway again that refuses its configuration. */
const loadMs = 60_000

const imported = new Map<string, Imported>()
let imports = 0

/** Rejects with what is wrong with the module, or with the error that the module threw. */
export async function importPlugin(path: string, read = new ReadFiles()): Promise<Plugin> {
  const known = imported.get(path)
  const files = known && (await digestsNow(known.files.keys()))
  if (known && files && sameDigests(files, known.files)) {
    for (const [file, digest] of files) read.note(file, digest)
    return known.plugin
  }
  const number = `${imports++}`
  const paths = new Set([path])
  filesOf.set(number, paths)
  try {
    const loading: Promise<unknown> = import(`${pathToFileURL(path).href}?tollgate=${number}`)
    const module = await within(loading, loadMs, 'its import')
    if (!isPluginModule(module)) {
      throw new Error('does not export `plugin` with name, schema and setup')
    }
    const { plugin } = module
    imported.set(path, { plugin, files: await digestsNow(paths) })
    return plugin
  } finally {
    filesOf.delete(number)
    for (const [file, digest] of await digestsNow(paths)) read.note(file, digest)
  }
}

function isPluginModule(module: unknown): module is { plugin: Plugin } {
  if (typeof module !== 'object' || module === null || !('plugin' in module)) return false
  const { plugin } = module
  if (typeof plugin !== 'object' || plugin === null) return false
  return 'name' in plugin && 'schema' in plugin && 'setup' in plugin
}
