// Shared by the tools of all languages: runs them, returns their output, and keeps what they make under a name that
// identifies its sources.

import { execFile } from 'node:child_process'
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { promisify } from 'node:util'
import { fingerprint } from '../../../scripts/cache.ts'
import type { Gate } from '../language.ts'

const run = promisify(execFile)
/** A tool that takes longer than this is ended. */
const timeout = 600_000
const maxBuffer = 64 * 1_048_576

export interface Place {
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  /** The tool's standard input. */
  readonly input?: string
}

/** Rejects with the tool's output. */
export async function outputOf(
  program: string,
  words: readonly string[],
  { cwd, env = {}, input }: Place = {},
): Promise<string> {
  const { TOLLGATE_API_KEY: _key, TOLLGATE_BASE_URL: _url, ...inherited } = process.env
  const options = { env: { ...inherited, NO_COLOR: '1', ...env }, timeout, maxBuffer }
  const running = run(program, words, { ...options, ...(cwd && { cwd }) })
  running.child.stdin?.end(input)
  const { stdout } = await running.catch((cause: unknown) => {
    const { stdout: said = '', stderr = '' } = cause as { stdout?: string; stderr?: string }
    throw new Error(`${program} ${words.join(' ')}\n${said}${stderr}`.slice(0, 8000), { cause })
  })
  return stdout.trim()
}

export function folderOf(client: string): string {
  return resolve(import.meta.dirname, '../..', client)
}

/** Paths within `home`, in order, without what tools leave behind. */
export async function sourcesOf(home: string): Promise<readonly string[]> {
  const entries = await readdir(home, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => relative(home, join(parentPath, name)))
    .filter((path) => !/^(node_modules|dist|driver|target)\//.test(path))
    .toSorted()
}

export async function hashOf(home: string, paths?: readonly string[]): Promise<string> {
  const texts: string[] = []
  for (const path of paths ?? (await sourcesOf(home))) {
    texts.push(path, await readFile(join(home, path), 'utf8'))
  }
  return fingerprint(texts)
}

/** Runs in a folder that is deleted afterwards. */
export async function inFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-client-'))
  try {
    return await use(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** The blocks of a README in that language, in order. */
export async function blocksOf(readme: string, language: string): Promise<readonly string[]> {
  const text = await readFile(readme, 'utf8')
  const pattern = new RegExp(`^\`\`\`${language}(?:,\\S*)?\\n(.*?)^\`\`\`$`, 'gms')
  return [...text.matchAll(pattern)].map(([, block = '']) => block)
}

/** The environment by which a client without arguments finds the gateway. */
export function environmentOf({ apiKey, baseURL }: Gate): Readonly<Record<string, string>> {
  return { TOLLGATE_API_KEY: apiKey, TOLLGATE_BASE_URL: baseURL }
}
