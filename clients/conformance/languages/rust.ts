// The Rust client: its driver and its own checks, all by cargo. Driver and checks share one folder of the cache for
// what cargo builds; nothing is written beside the sources.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import type { Language } from '../language.ts'
import { cargo, oldest, target } from './rust/cargo.ts'
import { checkExamples, checkInstall, checkPackage } from './rust/package.ts'
import { outputOf } from './tools.ts'

export const rust: Language = {
  name: 'rust',
  missing,
  async driver() {
    await cargo(['build', '--locked', '--quiet', '--package', 'tollgate-conformance'])
    return { command: join(target, 'debug', 'tollgate-conformance'), words: [] }
  },
  checks: {
    lint: async () => {
      const words = ['clippy', '--locked', '--quiet', '--workspace', '--all-targets']
      await cargo([...words, '--', '--deny', 'warnings'])
    },
    format: async () => {
      await cargo(['fmt', '--all', '--check'])
    },
    tests: async () => {
      const said = await cargo(['test', '--locked', '--package', 'tollgate-gateway'])
      assert.match(said, /test result: ok\. [1-9]/)
    },
    docs: async () => {
      const words = ['doc', '--locked', '--quiet', '--no-deps', '--package', 'tollgate-gateway']
      await cargo(words, { env: { RUSTDOCFLAGS: '--deny warnings' } })
    },
    package: checkPackage,
    install: checkInstall,
    examples: checkExamples,
  },
}

async function missing(): Promise<readonly string[]> {
  const version = /(\d+)\.(\d+)/.exec(await versionOf([]))
  const [major, minor] = [Number(version?.[1] ?? 0), Number(version?.[2] ?? 0)]
  if (major < oldest[0] || (major === oldest[0] && minor < oldest[1])) {
    return [`Rust ${oldest.join('.')} with cargo`]
  }
  const tools = await Promise.all(
    ['clippy', 'fmt'].map(async (tool) => ((await versionOf([tool])) ? [] : [`cargo ${tool}`])),
  )
  return tools.flat()
}

/** The tool's version; empty when the tool is not installed. */
function versionOf(tool: readonly string[]): Promise<string> {
  return outputOf('cargo', [...tool, '--version']).catch(() => '')
}
