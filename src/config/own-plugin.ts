// Imports an operator's own plugin by path: a module that exports `plugin`, in the shape of the built-in ones.

import { registerHooks } from 'node:module'
import { pathToFileURL } from 'node:url'
import type { Plugin } from '../plugin.ts'

const api = new URL('../plugin-api.ts', import.meta.url).href

// A plugin's file may lie anywhere, and need not have this package in a node_modules above it.
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === 'tollgate/plugin' ? { url: api, shortCircuit: true } : next(specifier, context),
})

/** Rejects with what is wrong with the module, or with the error that the module threw. */
export async function importPlugin(path: string): Promise<Plugin> {
  const module: unknown = await import(pathToFileURL(path).href)
  if (!isPluginModule(module)) {
    throw new Error('does not export `plugin` with name, schema and setup')
  }
  return module.plugin
}

function isPluginModule(module: unknown): module is { plugin: Plugin } {
  if (typeof module !== 'object' || module === null || !('plugin' in module)) return false
  const { plugin } = module
  if (typeof plugin !== 'object' || plugin === null) return false
  return 'name' in plugin && 'schema' in plugin && 'setup' in plugin
}
