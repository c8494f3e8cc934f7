// Reads gateway.yaml with everything that it names, the operator's own plugins too: for the start and for each reload.

import type { Io } from './cli/command.ts'
import { loadConfig } from './config/load.ts'
import { importPlugin } from './config/own-plugin.ts'
import type { LoadOptions } from './config/load.ts'
import type { ReadFiles } from './config/read-files.ts'
import { plugins } from './gateway.ts'
import type { Plugin } from './plugin.ts'

export async function loadFile(
  file: string,
  { env }: Io,
  options: Pick<LoadOptions, 'given' | 'running'> = {},
) {
  const ownPlugins: Plugin[] = []
  const loadPlugin = async (path: string, files: ReadFiles) => {
    const plugin = await importPlugin(path, files)
    ownPlugins.push(plugin)
    return plugin
  }
  return {
    ...(await loadConfig(file, plugins, { env, loadPlugin, ...options })),
    ownPlugins,
  }
}
