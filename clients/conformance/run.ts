// `npm run test:clients`: runs every case with every client, and prints a table and what was wrong. The last line is `N
// passed, N failed`. A client whose tools are not installed is left out with a notice; with CI set, that is a failure.

import { parseArgs } from 'node:util'
import { DriverProcess } from './driver.ts'
import type { Case } from './case.ts'
import { cases } from './cases/all.ts'
import { Traveller, journeys, startWorld } from './journeys.ts'
import type { Driver, Language } from './language.ts'
import { languages } from './languages/all.ts'
import { perform } from './perform.ts'
import { print } from './table.ts'

const { values } = parseArgs({
  options: { only: { type: 'string', multiple: true }, case: { type: 'string' } },
})
/** The faults of one run. */
const maxDifferences = 20
const isWanted = (name: string) => name.includes(values.case ?? '')
const wanted = cases.filter(({ name }) => isWanted(name))
const travels = journeys.filter(([name]) => isWanted(name))
const rows = [...wanted.map(({ name }) => name), ...travels.map(([name]) => name)]
const problems: string[] = []
const passed = { count: 0, failed: 0 }

await using undo = new AsyncDisposableStack()
const world = travels.length > 0 ? await startWorld(undo) : undefined
const columns = await Promise.all(
  languages.filter(({ name }) => values.only?.includes(name) ?? true).map(column),
)
print([
  ['case', ...columns.map(({ name }) => name)],
  ...rows.map((name, i) => [name, ...columns.map(({ cells }) => cells[i] ?? '')]),
])
for (const problem of problems) console.log(problem)
console.log(`${passed.count} passed, ${passed.failed} failed`)
process.exitCode = passed.failed === 0 && passed.count > 0 ? 0 : 1

/** Two drivers share the rows: while one waits to see that nothing comes too early, the other goes on. */
async function column(language: Language) {
  const { name } = language
  const driver = await ready(language)
  if (!driver) return { name, cells: rows.map(() => '-') }
  const cells: string[] = []
  const left = rows.keys()
  const lane = async (process: DriverProcess) => {
    for (const i of left) cells[i] = await cell(i, name, process)
    await process.end()
  }
  await Promise.all([lane(new DriverProcess(driver)), lane(new DriverProcess(driver))])
  return { name, cells }
}

async function cell(row: number, client: string, driver: DriverProcess): Promise<string> {
  const one = wanted[row]
  if (one) return await caseCell(one, client, driver)
  const [title, travel] = travels[row - wanted.length] ?? []
  if (!title || !travel || !world) return '-'
  return await tell(`${client}: ${title}`, travel(new Traveller(world, driver)))
}

async function ready({ name, missing, driver }: Language): Promise<Driver | undefined> {
  const lacking = await missing()
  if (lacking.length === 0) {
    return driver().catch((error: unknown) => failed(`${name}: it was not built: ${error}`))
  }
  const words = `${name}: left out, for lack of ${lacking.join(', ')}`
  if (process.env.CI) failed(words)
  else console.log(words)
}

async function caseCell(
  { name, runs }: Case,
  client: string,
  driver: DriverProcess,
): Promise<string> {
  let bad = 0
  for (const [i, run] of runs.entries()) {
    const found = await perform(run, driver)
    if (found.length === 0) continue
    // A promise that is broken in one place is often broken everywhere: a few failures are enough to print.
    const words = found.slice(0, maxDifferences).join('\n  ')
    if (++bad <= 3) problems.push(`${client}: ${name}, run ${i + 1}:\n  ${words}`)
    if (bad >= 3) break
  }
  if (bad === 0) passed.count++
  else passed.failed++
  return bad === 0 ? 'ok' : 'NO'
}

async function tell(title: string, travel: Promise<void>): Promise<string> {
  try {
    await travel
    passed.count++
    return 'ok'
  } catch (error) {
    failed(`${title}:\n  ${error instanceof Error ? error.message : String(error)}`)
    return 'NO'
  }
}

function failed(words: string): undefined {
  problems.push(words)
  passed.failed++
}
