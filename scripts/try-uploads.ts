// `npm run try:uploads`: what `npm test` can't have. Uploads by the libraries of other languages, downloads of the same
// files, whole and in part; and files with scripts, opened in a browser in every way, from the gateway and, to prove
// that the check sees scripts, from a plain server. Prints two tables; exits with 1 if anything was wrong. The first
// run needs the package indexes of Python, Rust and Debian, and go and cargo.

import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { startFiles } from '../test/fixtures/files-http.ts'
import { teardownOf } from '../test/fixtures/teardown.ts'
import { tempDir } from '../test/fixtures/temp-dir.ts'
import { activeFiles } from '../test/fixtures/uploads/active.ts'
import { askFor, cases, problemWith, uploadsYaml } from '../test/fixtures/uploads/cases.ts'
import type { UploadClient } from '../test/fixtures/uploads/cases.ts'
import { nodeClients } from '../test/fixtures/uploads/node-clients.ts'
import { openChromium } from './chromium.ts'
import { table } from './table.ts'
import { visit } from './uploads/browsing.ts'
import { programs } from './uploads/programs.ts'
import { openDoor, openPlain, openStranger } from './uploads/sites.ts'

/** The ways in which a script of a plain server's file does run. */
const able = ['top', 'iframe', 'embed', 'object', 'script', 'module', 'worker', 'import', 'service']
  .map((way) => (way === 'top' ? way : `own-${way}`))
  .concat('strange-iframe', 'strange-script', 'strange-import', 'cookie')
const problems: string[] = []

await using undo = new AsyncDisposableStack()
const t = teardownOf(undo)
const { own, url, gateway } = await startFiles(t, { yaml: uploadsYaml })
const folder = await tempDir(t)

console.log('Making the clients (the first time they are downloaded and built) …')
const rows: string[][] = []
for (const [name, upload] of Object.entries(nodeClients)) {
  rows.push([name, await versionFor(name), ...(await tryClient(name, upload))])
}
for (const [name, ensure] of Object.entries(programs)) {
  const program = await ensure().catch((error: unknown) => void problems.push(`${name}: ${error}`))
  if (program) rows.push([name, program.version, ...(await tryClient(name, program.upload))])
}
console.log(table(['client', 'version', ...Object.keys(cases)], rows))
console.log(
  'ok: taken and served back whole and in part, or refused so that the client showed why\n',
)
for (const left of await gateway.store.unfinished('files/')) problems.push(`left over: ${left}`)

console.log('Opening a browser …')
const { version, lines } = await tryBrowser()
console.log(table(['file', 'plain server', 'gateway', 'inline'], lines))
console.log(`Chromium ${version}. How many scripts ran, of 23 ways: the URL opened by itself, and taken in 11 ways by a page of
the same origin and by a stranger's; and one more where a cookie was set. The gateway's as it is, and by ?disposition=inline.
`)
for (const problem of problems) console.log(problem)
process.exitCode = problems.length === 0 ? 0 : 1

async function tryClient(client: string, upload: UploadClient): Promise<readonly string[]> {
  const cells: string[] = []
  for (const name of Object.keys(cases)) {
    const ask = await askFor(name, { url, key: own.key, session: own.session, folder })
    const problem = await upload(ask).then((came) => problemWith(name, came, ask), String)
    if (problem !== undefined) problems.push(`${client}, ${name}: ${problem}`)
    cells.push(problem === undefined ? 'ok' : 'NO')
  }
  return cells
}

async function tryBrowser() {
  const door = await openDoor(undo, { url, key: own.key })
  const plain = await openPlain(undo)
  const stranger = await openStranger(undo)
  const chromium = await openChromium(undo)
  const seen = new Set<string>()
  const lines: string[][] = []
  for (const [name, { content, plainType, crashes }] of Object.entries(activeFiles)) {
    const { id } = await own.make({ content, name, type: plainType })
    const shown = crashes
      ? undefined
      : await visit(chromium, { site: plain, stranger, path: `/${name}` })
    for (const said of shown ?? []) seen.add(said.replace(/,.*/, ''))
    if (shown?.length === 0) problems.push(`${name}: nothing ran from the plain server either`)
    const line = [name, shown ? String(shown.length) : 'not opened']
    for (const query of ['', '?disposition=inline']) {
      const path = `/api/files/${id}${query}`
      const ran = await visit(chromium, { site: door, stranger, path })
      if (ran.length > 0) problems.push(`${name}${query} from the gateway ran: ${ran.join('; ')}`)
      line.push(String(ran.length))
    }
    lines.push(line)
  }
  for (const way of able) if (!seen.has(way)) problems.push(`nothing ever ran by ${way}`)
  return { version: chromium.version, lines }
}

async function versionFor(client: string): Promise<string> {
  if (!client.startsWith('openai')) return process.versions.node
  const file = resolve(import.meta.dirname, '../node_modules/openai/package.json')
  return (JSON.parse(await readFile(file, 'utf8')) as { version: string }).version
}
