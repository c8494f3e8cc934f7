// The Go client: its driver, built by the go command into the cache, and its own checks. Nothing is written beside the
// sources; the go command's own caches are used as they are.

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, readFile, readdir, rename, rm } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { promisify } from 'node:util'
import { cacheFolder, isThere } from '../../../scripts/model-server/python.ts'
import type { Language } from '../language.ts'

const run = promisify(execFile)
const home = join(import.meta.dirname, '../../go')
/** The oldest that the client promises. */
const oldest = [1, 23] as const

const env = {
  ...process.env,
  GOFLAGS: '-buildvcs=false -p=2',
  GOTOOLCHAIN: 'local',
  GOWORK: 'off',
}

export const go: Language = {
  name: 'go',
  async missing() {
    const version = await run('go', ['env', 'GOVERSION'], { env }).then(
      ({ stdout }) => /go(\d+)\.(\d+)/.exec(stdout),
      () => null,
    )
    const [major, minor] = [Number(version?.[1] ?? 0), Number(version?.[2] ?? 0)]
    const isNew = major > oldest[0] || (major === oldest[0] && minor >= oldest[1])
    return isNew ? [] : [`Go ${oldest.join('.')}`]
  },
  async driver() {
    return { command: await ensureDriver(), words: [] }
  },
  checks: {},
}

async function ensureDriver(): Promise<string> {
  const program = join(cacheFolder(), `clients-go-${await hashOfSources()}`)
  if (await isThere(program)) return program
  await mkdir(cacheFolder(), { recursive: true })
  const fresh = `${program}.${process.pid}`
  try {
    await inHome('go', ['build', '-o', fresh, './internal/conformance'])
    await rename(fresh, program)
  } finally {
    await rm(fresh, { force: true })
  }
  return program
}

async function hashOfSources(): Promise<string> {
  const entries = await readdir(home, { recursive: true, withFileTypes: true })
  const files = entries
    .filter((entry) => entry.isFile() && /\.(go|mod)$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted()
  const hash = createHash('sha256')
  for (const file of files) hash.update(`${relative(home, file)}\0`).update(await readFile(file))
  return hash.digest('hex').slice(0, 12)
}

/** Rejects with the tool's words. */
async function inHome(program: string, words: readonly string[]): Promise<string> {
  try {
    const { stdout } = await run(program, words, { cwd: home, env, maxBuffer: 64 << 20 })
    return stdout
  } catch (cause) {
    const { stdout = '', stderr = '' } = cause as { stdout?: string; stderr?: string }
    throw new Error(`${program} ${words.join(' ')}:\n${stdout}${stderr}`, { cause })
  }
}
