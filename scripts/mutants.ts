// `npm run test:mutants [-- --seed N]`: does a test notice when a line is wrong? Each mutant changes one line in a copy
// of the tree, and one of its tests must then fail. When the line is not found, the table is stale, which is an error.
// The seed sets only the order; every mutant runs, unless `--only src/sessions` selects some. A test must fail by an
// assertion: a time-out proves nothing, since a slow machine alone can cause it.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { text as textOf } from 'node:stream/consumers'
import { parseArgs } from 'node:util'
import { redisServerPath } from '../test/fixtures/redis-server.ts'
import { mutants } from '../test/mutants/table.ts'
import type { Mutant } from '../test/mutants/mutant.ts'
import { processesOf } from './processes.ts'

const root = resolve(import.meta.dirname, '..')
const patienceMs = 120_000
const atOnce = 2

/** What tap prints for a test that was ended by a time limit, its own or that of the file. */
const timedOut = /^ *not ok \d+ - timeout!/m
/** A failure inside a test; the result line of a whole file is not indented. */
const failedAssertion = /^ +not ok \d+ - (?!timeout!)/m

type Verdict = 'caught' | 'TIMED OUT' | 'SURVIVED' | 'NOT FOUND'
type Result = 'passed' | 'failed' | 'timed out'

const { values } = parseArgs({
  options: { seed: { type: 'string', default: '1' }, only: { type: 'string', default: '' } },
})
const chosen = mutants.filter(({ file }) => file.startsWith(values.only))
const queue = shuffled(chosen, Number(values.seed))
const verdicts: Verdict[] = []
const base = await mkdtemp(join(tmpdir(), 'tgm-'))
try {
  await redisServerPath()
  await buildTap()
  await assertGreen()
  await Promise.all(Array.from({ length: atOnce }, (_, i) => work(join(base, String(i)))))
} finally {
  await rm(base, { recursive: true, force: true })
}
const bad = verdicts.filter((verdict) => verdict !== 'caught')
const late = verdicts.filter((verdict) => verdict === 'TIMED OUT')
console.log(
  `seed ${values.seed}: ${verdicts.length - bad.length} caught, ${bad.length} not, ${late.length} of them timed out`,
)
process.exitCode = bad.length === 0 ? 0 : 1

/** A fresh clone has tap with plugins that fail here, until it is built with those of .taprc. */
async function buildTap(): Promise<void> {
  const tap = spawn(join(root, 'node_modules/.bin/tap'), ['build'], { cwd: root, stdio: 'ignore' })
  const [code] = (await once(tap, 'exit')) as [number | null]
  if (code !== 0) throw new Error('tap build failed')
}

/** Checks that all tests pass without a mutant: a test that always fails would seem to notice every mutant. */
async function assertGreen(): Promise<void> {
  const place = join(base, 'green')
  await copyTree(place)
  const tests = [...new Set(chosen.flatMap((mutant) => mutant.tests))]
  for (const test of tests) {
    const result = await run(place, test)
    if (result !== 'passed') throw new Error(`${test} ${result} without a mutant`)
  }
}

async function work(place: string): Promise<void> {
  await copyTree(place)
  for (let mutant = queue.shift(); mutant; mutant = queue.shift()) {
    const started = performance.now()
    const verdict = await tryOut(place, mutant)
    const seconds = (performance.now() - started) / 1000
    verdicts.push(verdict)
    const { file, replacement } = mutant
    console.log(
      `${verdict.padEnd(14)} ${seconds.toFixed(1).padStart(5)} s  ${file}: ${replacement.trim()}`,
    )
  }
}

async function tryOut(place: string, { file, line, replacement, tests }: Mutant): Promise<Verdict> {
  const path = join(place, file)
  const text = await readFile(path, 'utf8')
  const lines = text.split('\n')
  const at = lines.findIndex((found) => found.trim() === line)
  if (at < 0) return 'NOT FOUND'
  await writeFile(path, lines.with(at, replacement).join('\n'))
  try {
    const results: Result[] = []
    for (const test of tests) {
      results.push(await run(place, test))
      if (results.at(-1) === 'failed') return 'caught'
    }
    return results.includes('timed out') ? 'TIMED OUT' : 'SURVIVED'
  } finally {
    await writeFile(path, text)
  }
}

async function run(place: string, test: string): Promise<Result> {
  const folder = await mkdtemp(join(base, 't-'))
  // tap's limit is a minute shorter than ours, so that tap can still report what it waited for.
  const env = { TMPDIR: folder, TOLLGATE_TEST_RUN: folder, TAP_TIMEOUT: `${patienceMs / 1000}` }
  const child = spawn(process.execPath, [join('test', test)], {
    cwd: place,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'ignore'],
    timeout: patienceMs + 60_000,
    killSignal: 'SIGKILL',
  })
  const output = textOf(child.stdout)
  const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
  for (const { pid } of await processesOf(folder)) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // The process has ended by itself.
    }
  }
  const said = await output
  // A mutant may fail an assertion and also keep the process alive.
  if (failedAssertion.test(said)) return 'failed'
  if (signal === 'SIGKILL' || timedOut.test(said)) return 'timed out'
  return code === 0 ? 'passed' : 'failed'
}

async function copyTree(place: string): Promise<void> {
  await mkdir(place)
  for (const name of ['src', 'test', 'scripts', 'config', 'docs', 'package.json']) {
    await cp(join(root, name), join(place, name), { recursive: true })
  }
  await symlink(join(root, 'node_modules'), join(place, 'node_modules'))
}

function shuffled<T>(all: readonly T[], seed: number): T[] {
  let state = seed >>> 0
  const rest = [...all]
  const order: T[] = []
  while (rest.length > 0) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    order.push(...rest.splice(Math.floor((state / 2 ** 32) * rest.length), 1))
  }
  return order
}
