// Running tools, and knowing files by what is in them.

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFile, readdir } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
/** What hangs is ended. */
const timeout = 300_000
const maxBuffer = 64 * 1_048_576

export interface Place {
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string | undefined>>
}

/** Rejects with what the tool said. */
export async function outputOf(
  program: string,
  words: readonly string[],
  { cwd, env = process.env }: Place = {},
): Promise<string> {
  const options = { env: { ...env, NO_COLOR: '1' }, timeout, maxBuffer, ...(cwd && { cwd }) }
  const { stdout } = await run(program, words, options).catch((cause: unknown) => {
    const { stdout: said = '', stderr = '' } = cause as { stdout?: string; stderr?: string }
    throw new Error(`${program} ${words.join(' ')}\n${said}${stderr}`.slice(0, 8000), { cause })
  })
  return stdout.trim()
}

/** Paths of the files, in order; what tools leave behind is none. */
export async function sourcesOf(home: string): Promise<readonly string[]> {
  const entries = await readdir(home, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => relative(home, join(parentPath, name)))
    .filter((path) => !/^(node_modules|dist|driver)\//.test(path))
    .sort()
}

export async function hashOf(home: string, paths: readonly string[]): Promise<string> {
  const hash = createHash('sha256')
  for (const path of paths) hash.update(`${path}\0`).update(await readFile(join(home, path)))
  return hash.digest('hex').slice(0, 12)
}
