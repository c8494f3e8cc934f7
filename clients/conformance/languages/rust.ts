// The Rust client: its driver and its own checks, all by cargo. What cargo builds is kept in one folder of the cache, which
// the driver and the checks share; nothing is written beside the sources.

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cacheFolder } from '../../../scripts/model-server/python.ts'
import type { Language } from '../language.ts'

const run = promisify(execFile)
const home = join(import.meta.dirname, '../../rust')
const target = join(cacheFolder(), 'rust')
/** As Cargo.toml promises. */
const oldest = [1, 86] as const

const env = { ...process.env, CARGO_TARGET_DIR: target, CARGO_BUILD_JOBS: '2', CARGO_TERM_COLOR: 'never' }

export const rust: Language = {
  name: 'rust',
  async missing() {
    const version = /(\d+)\.(\d+)/.exec(await wordsOf('cargo', ['--version']))
    const [major, minor] = [Number(version?.[1] ?? 0), Number(version?.[2] ?? 0)]
    const isNew = major > oldest[0] || (major === oldest[0] && minor >= oldest[1])
    const lacking = isNew ? [] : [`Rust ${oldest.join('.')} (cargo)`]
    for (const tool of ['clippy', 'fmt']) {
      if ((await wordsOf('cargo', [tool, '--version'])) === '') lacking.push(`cargo ${tool}`)
    }
    return lacking
  },
  async driver() {
    await cargo(['build', '--locked', '-q', '-p', 'tollgate-conformance'])
    return { command: join(target, 'debug', 'tollgate-conformance'), words: [] }
  },
  checks: {},
}

/** What a program says of itself; empty where it is not here. */
async function wordsOf(program: string, words: readonly string[]): Promise<string> {
  return run(program, words).then(
    ({ stdout }) => stdout,
    () => '',
  )
}

/** Rejects with cargo's words. */
async function cargo(words: readonly string[]): Promise<void> {
  await run('cargo', words, { cwd: home, env, maxBuffer: 64 << 20 })
}
