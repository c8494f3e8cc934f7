// The TypeScript client for the runner: what it is built from, and its own checks.

import { join } from 'node:path'
import type { Language } from '../language.ts'
import { checkBrowser } from './typescript/browser.ts'
import { ensureBuilt, inProject, inSources } from './typescript/build.ts'
import { checkExamples, checkFirstExample } from './typescript/examples.ts'
import { checkArchive } from './typescript/package.ts'
import { asStranger } from './install.ts'
import { outputOf } from './tools.ts'

export const typescript: Language = {
  name: 'typescript',
  async missing() {
    const version = await outputOf('npm', ['--version']).catch(() => '')
    return version === '' ? ['npm'] : []
  },
  async driver() {
    const folder = await ensureBuilt()
    return { command: process.execPath, words: [join(folder, 'driver/conformance/driver.js')] }
  },
  checks: {
    types: () => tool('tsc', ['-p', '.']),
    lint: () => tool('oxlint', ['--type-aware', '--deny-warnings']),
    format: () => tool('prettier', ['--check', '.']),
    tests: () => inSources(async (cwd) => void (await outputOf(process.execPath, test, { cwd }))),
    docs: () => tool('typedoc', []),
    package: (gate) =>
      inProject(async (folder) => {
        await inSources(checkArchive)
        await checkFirstExample(folder, gate)
      }),
    install: (gate) =>
      asStranger('typescript', async ({ cwd, install }) => {
        await install()
        await checkFirstExample(cwd, gate)
      }),
    examples: (gate) => inProject((folder) => checkExamples(folder, gate)),
    browser: async () => checkBrowser(await inSources(bundle)),
  },
}

const test = ['--test', 'test/*.ts']

function tool(name: string, words: readonly string[]): Promise<void> {
  return inSources(
    async (cwd) => void (await outputOf(`node_modules/.bin/${name}`, words, { cwd })),
  )
}

/** One module, as a web page loads it. */
async function bundle(cwd: string): Promise<string> {
  const words = ['src/tollgate.ts', '--bundle', '--format=esm', '--log-level=error']
  return await outputOf('node_modules/.bin/esbuild', words, { cwd })
}
