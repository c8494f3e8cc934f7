// `npm run check:clients`: each client's own checks (types, lint, format, docs, the package from its archive, the
// examples of its README against a real gateway), and a table. A client whose tools are not installed is left out with
// a notice; with CI set, that is a failure. `--only NAME`, `--check NAME`.

import { parseArgs } from 'node:util'
import { startGateway } from './gateway.ts'
import type { Gate, Language } from './language.ts'
import { languages } from './languages/all.ts'
import { print } from './table.ts'

const { values } = parseArgs({
  options: { only: { type: 'string', multiple: true }, check: { type: 'string' } },
})
await using undo = new AsyncDisposableStack()
const gateway = await startGateway(undo)
const problems: string[] = []
const lines: string[][] = [['client', 'check', '', 's']]
for (const language of languages.filter(({ name }) => values.only?.includes(name) ?? true)) {
  lines.push(...(await checked(language)))
}
print(lines)
for (const problem of problems) console.log(problem)
process.exitCode = problems.length === 0 ? 0 : 1

async function checked({ name, checks, missing }: Language): Promise<string[][]> {
  const lacking = await missing()
  if (lacking.length > 0) {
    const words = `left out, for lack of ${lacking.join(', ')}`
    if (process.env.CI) problems.push(`${name}: ${words}`)
    return [[name, words]]
  }
  const { key } = await gateway.account(1_000_000)
  const gate: Gate = { baseURL: `${gateway.url}/v1`, apiKey: key }
  const results: string[][] = []
  for (const [check, run] of Object.entries(checks)) {
    if (values.check !== undefined && values.check !== check) continue
    const from = Date.now()
    const problem = await run(gate).then(() => undefined, told)
    if (problem !== undefined) problems.push(`${name}, ${check}: ${problem}`)
    const seconds = ((Date.now() - from) / 1000).toFixed(1)
    results.push([name, check, problem === undefined ? 'ok' : 'NO', seconds])
  }
  return results
}

/** What the tool wrote says more than that it failed. */
function told(error: unknown): string {
  const { stdout = '', stderr = '' } = error as {
    readonly stdout?: string
    readonly stderr?: string
  }
  return `${String(error)}\n${stdout}${stderr}`.slice(0, 5000)
}
