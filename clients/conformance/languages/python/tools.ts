// Python's tools, each in an environment that is made once, and how to run them. What they write goes to the cache.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { cacheFolder, ensureMade } from '../../../../scripts/cache.ts'
import { ensurePython } from '../../../../scripts/model-server/python.ts'
import { folderOf, outputOf as run } from '../tools.ts'
import type { Place } from '../tools.ts'

export const home = folderOf('python')

const httpx = 'httpx==0.28.1'
const tools = ['mypy==2.4.1', 'ruff==0.17.6', 'pdoc==16.0.0', 'build==1.6.1', 'hatchling==1.33.0']
const pyright = 'pyright@1.1.414'
/** An interpreter with only what the client needs. */
export function ensureRuntime(): Promise<string> {
  return ensurePython([httpx])
}

/** An interpreter that also has the tools. */
export function ensureTools(): Promise<string> {
  return ensurePython([httpx, ...tools])
}

/** pyright's program for Node. The package of the same name on Python's index would download its own Node. */
export async function ensurePyright(): Promise<string> {
  const folder = await ensureMade(pyright.replace('@', '-'), async (fresh) => {
    await writeFile(join(fresh, 'package.json'), '{ "private": true }')
    const install = ['install', '--omit=optional', '--no-audit', '--no-fund', '--ignore-scripts']
    await outputOf('npm', [...install, pyright], { cwd: fresh })
  })
  return join(folder, 'node_modules/pyright/index.js')
}

/** Uses the sources in place; bytecode goes to the cache. */
export function environment(): Readonly<Record<string, string>> {
  return {
    PYTHONPATH: join(home, 'src'),
    PYTHONPYCACHEPREFIX: join(cacheFolder(), 'python-bytecode'),
    PYTHONUTF8: '1',
  }
}

/** Rejects with the tool's output. */
export function outputOf(
  program: string,
  words: readonly string[],
  { cwd = home, env = {} }: Place = {},
): Promise<string> {
  return run(program, words, { cwd, env: { ...environment(), ...env } })
}
