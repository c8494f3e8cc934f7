// The Python client, blocking and asynchronous: its packages are in environments that are kept, its sources stay in
// place.

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { cacheFolder } from '../../../scripts/cache.ts'
import type { Driver, Language } from '../language.ts'
import { checkExamples, checkInstall, checkPackage } from './python/package.ts'
import {
  ensurePyright,
  ensureRuntime,
  ensureTools,
  environment,
  home,
  outputOf,
} from './python/tools.ts'
import { inFolder } from './tools.ts'

export const python: Language = {
  name: 'python',
  missing,
  driver: () => driver('sync'),
  checks: {
    types: checkTypes,
    lint: () => tool('ruff', ['check', '--no-cache', '.']),
    format: () => tool('ruff', ['format', '--no-cache', '--check', '.']),
    tests: async () => {
      const words = ['-W', 'error::ResourceWarning', '-m', 'unittest', 'discover', '-s', 'tests']
      await outputOf(await ensureRuntime(), words)
    },
    docs: checkDocs,
    package: checkPackage,
    install: checkInstall,
    examples: checkExamples,
  },
}

export const pythonAsync: Language = {
  name: 'python async',
  missing,
  driver: () => driver('async'),
  checks: {},
}

async function missing(): Promise<readonly string[]> {
  const asked = ['-c', 'import sys; sys.exit(sys.version_info < (3, 9))']
  return outputOf('python3', asked).then(
    () => [],
    () => ['Python 3.9 or later'],
  )
}

async function driver(kind: 'sync' | 'async'): Promise<Driver> {
  const words = [join(home, 'conformance', 'driver.py'), kind]
  return { command: await ensureRuntime(), words, env: environment() }
}

async function checkTypes(): Promise<void> {
  await tool('mypy', ['--cache-dir', join(cacheFolder(), 'python-mypy')])
  const words = [await ensurePyright(), '--pythonpath', await ensureTools()]
  await outputOf(process.execPath, words)
}

/** What a reader of the docs looks for. */
const shown = ['Messages.create', 'Sends a message and streams its answer', 'IncompleteStreamError']
/** pdoc warns about each field of a TypedDict, because a TypedDict does not keep its base. */
const forgotten = 'ignore:Cannot determine where:UserWarning'

/** Every other warning is a failure. */
async function checkDocs(): Promise<void> {
  await inFolder(async (folder) => {
    const words = ['-W', 'error', '-W', forgotten, '-m', 'pdoc', '-o', folder, 'tollgate_gateway']
    await outputOf(await ensureTools(), words)
    const html = await readFile(join(folder, 'tollgate_gateway.html'), 'utf8')
    for (const text of shown) assert.ok(html.includes(text), `the docs do not show: ${text}`)
  })
}

async function tool(name: string, words: readonly string[]): Promise<void> {
  await outputOf(await ensureTools(), ['-m', name, ...words])
}
