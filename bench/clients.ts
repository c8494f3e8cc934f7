// `npm run bench:clients`: a million small chunks through each client library as fast as it reads them, which is an
// hour and a half of a model at 200 chunks a second. Measures the CPU of a chunk, and whether memory stays the same.
// Writes bench/clients.md; `--only NAME` measures one and writes nothing.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { DriverProcess } from '../clients/conformance/driver.ts'
import { key } from '../clients/conformance/case.ts'
import type { Json } from '../clients/conformance/case.ts'
import type { Language } from '../clients/conformance/language.ts'
import { languages } from '../clients/conformance/languages/all.ts'
import { startServer } from '../clients/conformance/server.ts'
import { block, chunk, sessionStream } from '../clients/conformance/transcript.ts'

const chunks = 1_000_000
const rounds = 3
/** When memory is measured: after the first tenth, a stream has all the memory that it needs. */
const looks = [0.1, 0.4, 0.7, 1].map((part) => part * chunks)
/** Chunks that are written together: 40 KiB. */
const together = 200

interface Sample {
  readonly cpuUs: number
  readonly rss: readonly number[]
}

const { values: flags } = parseArgs({ options: { only: { type: 'string' } } })
const rows: string[] = []
for (const language of languages) {
  if (flags.only && language.name !== flags.only) continue
  const samples: Sample[] = []
  for (let round = 0; round < rounds; round++) samples.push(await measure(language))
  rows.push(rowOf(language.name, samples))
  console.log(rows.at(-1))
}
if (!flags.only) writeFileSync(join(import.meta.dirname, 'clients.md'), page())

async function measure(language: Language): Promise<Sample> {
  const server = await startServer([sessionStream(flood())])
  const driver = new DriverProcess(await language.driver())
  const client = { base_url: server.url, api_key: key }
  try {
    await driver.tell({ line: { client, steps: [{ op: 'memory' }] } })
    const before = cpuOf(driver.pid)
    const during = looks.map((after) => ({ after, step: { op: 'memory' } }))
    const step = { op: 'messages.create', session_id: 'sess_1', content: 'Hi', during }
    const { steps } = await driver.tell({ line: { client, steps: [step] } })
    const cpuUs = (cpuOf(driver.pid) - before) / chunks
    const ok = steps[0]?.ok as { chunks: Json; during: readonly { ok: Json }[] } | undefined
    if (ok?.chunks.count !== chunks) throw new Error(JSON.stringify(steps).slice(0, 500))
    return { cpuUs, rss: ok.during.map((seen) => Number(seen.ok.rss)) }
  } finally {
    await driver.end()
    await server.close()
  }
}

function* flood(): Generator<string> {
  const data = JSON.stringify(chunk('w '))
  for (let from = 0; from < chunks; from += together) {
    yield Array.from({ length: together }, (_, i) => block(data, from + i)).join('')
  }
  yield block('[DONE]', chunks)
}

/** User and system time in µs; Linux counts in hundredths of a second. */
function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
    .replace(/^.*\) /, '')
    .split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10_000
}

function rowOf(name: string, samples: readonly Sample[]): string {
  const sorted = samples.toSorted((a, b) => a.cpuUs - b.cpuUs)
  const { cpuUs, rss } = sorted[Math.floor(rounds / 2)] ?? { cpuUs: NaN, rss: [] }
  const perCore = Math.round(1_000 / cpuUs)
  const memory = rss.map((bytes) => Math.round(bytes / 2 ** 20)).join(' | ')
  return `| ${name} | ${perCore},000 | ${cpuUs.toFixed(1)} | ${memory} |`
}

function page(): string {
  return `# Client libraries

By \`npm run bench:clients\`: a session stream of a million chunks of 200 bytes at full speed, read to its end; the middle one of
${rounds} rounds. CPU is all of the process's, JSON included. Memory is the process's RSS in MiB after a tenth of the chunks, four
tenths, seven tenths, all. Figures of one machine: compare the rows, not the numbers. Rust is built as its driver is, which is
quick to build and not its fastest.

| client | chunks a second and core | µs a chunk | 10 % | 40 % | 70 % | 100 % |
| - | - | - | - | - | - | - |
${rows.join('\n')}
`
}
