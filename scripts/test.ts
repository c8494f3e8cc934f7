// `npm test`: runs the whole suite and the client libraries, or the files named, with what tap needs on a fresh clone.
// Fails when a process that a test started outlives the run, and names it. The last line is always `N passed, N
// failed`, from the TAP results (the tests of each file, and files that failed as a whole by a crash or a time-out) and
// from the clients' run.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'
import { redisServerPath } from '../test/fixtures/redis-server.ts'
import { ensureS3Server } from '../test/fixtures/s3-server.ts'
import { ensureChromium } from './chromium.ts'
import { processesOf } from './processes.ts'
import { countTap } from './tap-count.ts'

const root = resolve(import.meta.dirname, '..')
const bin = join(root, 'node_modules/.bin')
// The path is short because unix sockets are in it, and their paths have at most 107 bytes.
const folder = await mkdtemp(join(tmpdir(), 'tgt-'))
const env = {
  ...process.env,
  PATH: `${bin}:${process.env.PATH ?? ''}`,
  TMPDIR: folder,
  TOLLGATE_TEST_RUN: folder,
  // What one test file has compiled is not compiled again by the next ones: a sixth of the CPU time of those that import
  // the gateway.
  NODE_COMPILE_CACHE: join(folder, 'compiled'),
  // The seed of random tests is fixed, so that a failure is caused by the change. For others: `npm run test:long` or
  // SEED=….
  SEED: process.env.SEED ?? String(process.env.LONG ? Date.now() % 1_000_000 : 20_261_121),
}

let { passed, failed } = { passed: 0, failed: 0 }
try {
  await prepare()
  const { code, lines } = await tap(['--reporter=tap', ...process.argv.slice(2)], worthPrinting())
  ;({ passed, failed } = countTap(lines))
  // tap itself failed, or found nothing to run.
  if (failed === 0 && (code !== 0 || passed === 0)) failed = 1
  if (process.argv.length === 2) {
    const clients = await runClients()
    passed += clients.passed
    failed += clients.failed
  }
  failed += await endLeftBehind()
} catch (error) {
  console.error(error)
  failed++
} finally {
  await rm(folder, { recursive: true, force: true })
}
console.log(`${passed} passed, ${failed} failed`)
process.exitCode = failed === 0 ? 0 : 1

/** Fetches once what all files need: otherwise three files at a time would each fetch a redis-server and an S3 server. */
async function prepare(): Promise<void> {
  if ((await tap(['build'], () => true)).code !== 0) throw new Error('tap build failed')
  await redisServerPath()
  // Without the S3 server, the tests that need it fail, and the others run.
  await ensureS3Server().catch((error: unknown) => console.error(error))
  // So do those of the account page without a browser.
  await ensureChromium().catch((error: unknown) => console.error(error))
}

/** The client libraries are tested by the tools of their languages, not by tap. */
async function runClients(): Promise<{ readonly passed: number; readonly failed: number }> {
  const { code, lines } = await run(process.execPath, ['clients/conformance/run.ts'], () => true)
  const [, passed, failed] = /^(\d+) passed, (\d+) failed$/.exec(lines.at(-1) ?? '') ?? []
  return { passed: Number(passed ?? 0), failed: Math.max(Number(failed ?? 1), code === 0 ? 0 : 1) }
}

interface Ran {
  readonly code: number
  readonly lines: readonly string[]
}

/** tap's own short reporters hide what a crashed file wrote. Therefore this reads the TAP output and prints the lines that `isShown` selects. */
function tap(words: readonly string[], isShown: IsShown): Promise<Ran> {
  return run(join(bin, 'tap'), words, isShown)
}

type IsShown = (line: string) => boolean

async function run(program: string, words: readonly string[], isShown: IsShown): Promise<Ran> {
  const child = spawn(program, words, { cwd: root, env, stdio: ['ignore', 'pipe', 'inherit'] })
  const pass = (signal: NodeJS.Signals) => child.kill(signal)
  process.on('SIGINT', pass).on('SIGTERM', pass)
  const exit = once(child, 'exit') as Promise<[number | null]>
  const lines: string[] = []
  if (child.stdout) {
    for await (const line of createInterface(child.stdout)) {
      lines.push(line)
      if (isShown(line)) console.log(line)
    }
  }
  const [code] = await exit
  process.off('SIGINT', pass).off('SIGTERM', pass)
  return { code: code ?? 1, lines }
}

/** Selects the result of each file, and each failure with its details. */
function worthPrinting(): IsShown {
  let isAfterFailure = false
  let isDiagnostic = false
  return (line) => {
    if (isDiagnostic) {
      if (/^ *\.\.\.$/.test(line)) isDiagnostic = isAfterFailure = false
      return true
    }
    if (isAfterFailure && /^ *---$/.test(line)) return (isDiagnostic = true)
    isAfterFailure = /^ *not ok /.test(line)
    return isAfterFailure || line.startsWith('ok ')
  }
}

/** Ends processes that are left, and resolves with their number. A child whose parent has just ended has two seconds to notice. */
async function endLeftBehind(): Promise<number> {
  const deadline = Date.now() + 2000
  let left = await processesOf(folder)
  while (left.length > 0 && Date.now() < deadline) {
    await wait(50)
    left = await processesOf(folder)
  }
  for (const { pid, command } of left) {
    console.error(`left behind by a test: process ${pid}: ${command}`)
    process.kill(pid, 'SIGKILL')
  }
  return left.length
}
