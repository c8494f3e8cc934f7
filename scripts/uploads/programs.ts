// Client programs in other languages: built by each language's own tools, the first time from its package index, and
// kept. Their input and output is JSON.

import { execFile } from 'node:child_process'
import { cp, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Came, UploadClient } from '../../test/fixtures/uploads/cases.ts'
import { curlVersion, uploadWithCurl } from '../../test/fixtures/uploads/curl.ts'
import { ensureMade, fingerprint } from '../cache.ts'
import { ensurePython } from '../model-server/python.ts'

export interface Program {
  readonly version: string
  readonly upload: UploadClient
}

const run = promisify(execFile)
const here = import.meta.dirname
const python = { requests: '2.34.2', httpx: '0.28.1' } as const
/** A program that takes longer than this hangs. */
const boundMs = 60_000

/** Each function rejects when its language's tools are not installed. */
export const programs: Readonly<Record<string, () => Promise<Program>>> = {
  'requests for Python': () => ensurePythonClient('requests'),
  'httpx for Python': () => ensurePythonClient('httpx'),
  'net/http of Go': async () => ({
    version: (await outputOf('go', ['env', 'GOVERSION'])).replace(/^go/, ''),
    upload: asked(await ensureGo()),
  }),
  'reqwest for Rust': async () => ({
    version: /^reqwest = .*"=([\d.]+)"/m.exec(await source('rust/Cargo.toml'))?.[1] ?? '',
    upload: asked(await ensureRust()),
  }),
  'curl -F': async () => ({ version: await curlVersion(), upload: uploadWithCurl }),
}

async function ensurePythonClient(library: keyof typeof python): Promise<Program> {
  const packages = Object.entries(python).map(([name, version]) => `${name}==${version}`)
  const interpreter = await ensurePython(packages)
  const words = [join(here, 'python_client.py'), library]
  return { version: python[library], upload: asked(interpreter, words) }
}

function asked(program: string, words: readonly string[] = []): UploadClient {
  return async (ask) => {
    const { stdout } = await run(program, [...words, JSON.stringify(ask)], { timeout: boundMs })
    return JSON.parse(stdout) as Came
  }
}

async function ensureGo(): Promise<string> {
  const made = await ensureBuilt('go', ['go.mod', 'main.go'], (folder) =>
    outputOf('go', ['build', '-o', 'uploads', '.'], folder),
  )
  return join(made, 'uploads')
}

async function ensureRust(): Promise<string> {
  const made = await ensureBuilt('rust', ['Cargo.toml', 'src/main.rs'], (folder) =>
    outputOf('cargo', ['build', '--release', '--quiet'], folder),
  )
  return join(made, 'target/release/uploads')
}

/** Builds in a copy, so that no tool writes into the source folder. */
async function ensureBuilt(
  name: string,
  files: readonly string[],
  build: (folder: string) => Promise<unknown>,
): Promise<string> {
  const texts = await Promise.all(files.map((file) => source(`${name}/${file}`)))
  return await ensureMade(`uploads-${name}-${fingerprint(texts)}`, async (folder) => {
    await cp(join(here, name), folder, { recursive: true })
    await build(folder)
  })
}

function source(path: string): Promise<string> {
  return readFile(join(here, path), 'utf8')
}

async function outputOf(program: string, words: readonly string[], cwd = here): Promise<string> {
  const { stdout } = await run(program, words, { cwd }).catch((cause: unknown) => {
    throw new Error(`${program} is needed, and did not do: ${words.join(' ')}`, { cause })
  })
  return stdout.trim()
}
