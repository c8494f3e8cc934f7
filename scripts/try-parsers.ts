// `npm run try:parsers`: reads a gateway's session streams with every parser we know, also those that `npm test` can't
// have: OpenAI's package for Python, and a browser. Prints a table of the results; exits with 1 if a parser saw
// anything else than what was sent. The first run needs the package indexes of Python and Debian.

import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { within } from '../src/sharing/patience.ts'
import { readWithEventSource } from '../test/fixtures/parsers/event-source.ts'
import { nodeReaders } from '../test/fixtures/parsers/readers.ts'
import type { Reader } from '../test/fixtures/parsers/readers.ts'
import { gather, isToldPause, reconnect } from '../test/fixtures/parsers/reconnecting.ts'
import type { Told } from '../test/fixtures/parsers/reconnecting.ts'
import {
  commentsIn,
  endings,
  leastComments,
  openStage,
  starts,
} from '../test/fixtures/parsers/stage.ts'
import type { Ask, Ending, Seen, Start } from '../test/fixtures/parsers/stage.ts'
import { teardownOf } from '../test/fixtures/teardown.ts'
import { difference } from '../test/fixtures/uploads/cases.ts'
import { ensurePython } from './model-server/python.ts'
import { startPage } from './parsers/browser.ts'
import type { PageReader } from './parsers/browser.ts'
import { table } from './table.ts'

const openaiForPython = '3.52.0'
/** A parser that takes longer than this hangs. */
const boundMs = 30_000
const problems: string[] = []

await using undo = new AsyncDisposableStack()
const page = await startPage(undo)
const stage = await openStage(
  teardownOf(undo),
  `plugins: { cors: { origins: ['${page.origin}'] } }`,
)
console.log(
  'Making a Python environment and opening a browser (the first time they are downloaded) …',
)
const python = await ensurePython([`openai==${openaiForPython}`])
const chromium = await page.open()

const head = ['parser', 'version', ...starts, 'reconnected']
const rows: string[][] = []
for (const [name, read] of Object.entries(nodeReaders)) {
  const version = await versionOf(name.split(',')[0] ?? name)
  rows.push([name, version, ...(await tryReader(name, read)), ''])
}
for (const kind of ['sync', 'async']) {
  const name = `openai for Python, ${kind}`
  rows.push([name, openaiForPython, ...(await tryReader(name, pythonReader(kind))), ''])
}
const inPage = (reader: PageReader) => (ask: Ask) => page.read(reader, ask)
const readInPage = async (ask: Ask): Promise<Seen> => {
  const told = await page.read('fetch', ask)
  return gather(told.map(({ data }) => data))
}
const fetching = 'Chromium, fetch and eventsource-parser'
rows.push([fetching, chromium, ...(await tryReader(fetching, readInPage)), ''])
const ofNode = ({ url, path }: Ask) => readWithEventSource(url + path)
rows.push(await tryReconnecting("Node's EventSource", process.versions.node, ofNode))
rows.push(await tryReconnecting("Chromium's EventSource", chromium, inPage('EventSource')))
rows.push(await trySendingAgain('Chromium, @microsoft/fetch-event-source'))

console.log(table(head, rows))
console.log(`
Each cell: how many of the ends ${endings.join(', ')} were seen, with all text before them.
sent: the POST itself · resumed: from the middle, while it is generated · replayed: from the middle, behind its end
reconnected: cut off, went on from its Last-Event-ID by itself, and stopped (EventSource: at the 204)
`)
for (const problem of problems) console.log(problem)
process.exitCode = problems.length === 0 ? 0 : 1

async function tryReader(name: string, read: Reader): Promise<readonly string[]> {
  const cells: string[] = []
  for (const start of starts) {
    const inTurn = (ending: Ending) => tryOnce(read, { start, ending })
    cells.push(await counted(`${name}, ${start}`, inTurn))
  }
  return cells
}

async function tryOnce(
  read: Reader,
  { start, ending }: { readonly start: Start; readonly ending: Ending },
): Promise<string | undefined> {
  const play = await stage.play(ending)
  try {
    const ask = await play.ask(start)
    const seen = await bounded(read(ask))
    const count = commentsIn(play.passageOf(ask))
    if (count < leastComments[start]) return `only ${count} comments passed`
    return difference(seen, play.expectedOf(start))
  } finally {
    await play.end()
  }
}

type ReconnectingReader = (ask: Ask) => Promise<readonly Told[]>

async function tryReconnecting(
  name: string,
  version: string,
  read: ReconnectingReader,
): Promise<string[]> {
  const cell = await counted(name, async (ending) => {
    const play = await stage.play(ending)
    try {
      await play.begin()
      const ask = play.stream()
      const { pauseMs, ...saw } = await bounded(reconnect(play, { ask, read }))
      if (!isToldPause(pauseMs)) return `came back after ${pauseMs} ms`
      return difference(saw, play.expectedOfReconnected())
    } finally {
      await play.end()
    }
  })
  return [name, version, ...starts.map(() => ''), cell]
}

/** The browser sends its POST again, with Last-Event-ID: that must not generate again. */
async function trySendingAgain(name: string): Promise<string[]> {
  const cell = await counted(name, async (ending) => {
    const play = await stage.play(ending)
    try {
      const ask = await play.ask('sent')
      const again = { ask, read: inPage('fetchEventSource') }
      const { pauseMs, ...saw } = await bounded(reconnect(play, again))
      const { asked, ...expected } = play.expectedOfReconnected()
      if (!isToldPause(pauseMs)) return `came back after ${pauseMs} ms`
      return difference(saw, { ...expected, asked: asked.slice(0, -1) })
    } finally {
      await play.end()
    }
  })
  const version = await versionOf('@microsoft/fetch-event-source')
  return [name, version, ...starts.map(() => ''), cell]
}

async function counted(
  what: string,
  attempt: (ending: Ending) => Promise<string | undefined>,
): Promise<string> {
  let count = 0
  for (const ending of endings) {
    const problem = await attempt(ending).catch(lastLine)
    if (problem === undefined) count++
    else problems.push(`${what}, ${ending}: ${problem}`)
  }
  return `${count} of ${endings.length}`
}

/** The last line of a traceback, which says what happened. */
function lastLine(error: unknown): string {
  return String(error).trimEnd().split('\n').at(-1) ?? ''
}

function bounded<T>(reading: Promise<T>): Promise<T> {
  return within(reading, boundMs, 'a reading')
}

function pythonReader(kind: string): Reader {
  const script = join(import.meta.dirname, 'parsers/openai_reader.py')
  return async (ask) => {
    const words = [script, kind, JSON.stringify(ask)]
    const { stdout } = await promisify(execFile)(python, words, { timeout: boundMs })
    return JSON.parse(stdout) as Seen
  }
}

async function versionOf(name: string): Promise<string> {
  const file = resolve(import.meta.dirname, '../node_modules', name, 'package.json')
  return (JSON.parse(await readFile(file, 'utf8')) as { version: string }).version
}
