// Writes what is generated: config/gateway.schema.json and docs/configuration.md from the configuration's schemas, the keys
// that config/examples/full.yaml lacks, docs/parameters.md from the table of parameters, and the generated parts of
// docs/api.md and docs/errors.md. Exits 1 when that example has a problem. `node scripts/generate.ts`; with `--check` it changes
// nothing and exits 1 when a file is stale, too.

import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { format, resolveConfig } from 'prettier'
import { gatewayKeys } from '../src/config/keys.ts'
import { formatProblem } from '../src/config/problem.ts'
import { plugins } from '../src/gateway.ts'
import { loadExample } from '../test/fixtures/config/examples.ts'
import { jsonSchema, reference } from './config-reference.ts'
import { keysOf, withAllKeys } from './full-example.ts'
import { refill } from './page-parts.ts'
import { parametersPage } from './parameters-page.ts'

const formatted = async (text: string, parser: 'markdown' | 'yaml') =>
  format(text, { ...(await resolveConfig(import.meta.filename)), parser })
const markdown = (text: string) => formatted(text, 'markdown')

const read = (name: string) => readFile(new URL(`../${name}`, import.meta.url), 'utf8')
const refilled = async (name: string) => markdown(refill(await read(name)))

const full = 'config/examples/full.yaml'

const files = {
  [full]: await formatted(withAllKeys(await read(full), keysOf(gatewayKeys(plugins))), 'yaml'),
  'config/gateway.schema.json': `${JSON.stringify(jsonSchema(plugins), null, 2)}\n`,
  'docs/configuration.md': await markdown(reference(plugins)),
  'docs/parameters.md': await markdown(parametersPage()),
  'docs/api.md': await refilled('docs/api.md'),
  'docs/errors.md': await refilled('docs/errors.md'),
}

for (const [name, text] of Object.entries(files)) {
  const file = new URL(`../${name}`, import.meta.url)
  const present = await read(name).catch(() => '')
  if (present === text) continue
  if (process.argv.includes('--check')) {
    console.error(`${name} is stale; run: node scripts/generate.ts`)
    process.exitCode = 1
  } else {
    await writeFile(file, text)
    console.log(`${name} written`)
  }
}

// A new key has its default in this example: one in a wrong form is told here, with its place.
const loaded = await loadExample(fileURLToPath(new URL(`../${full}`, import.meta.url)))
if ('problems' in loaded) {
  console.error(loaded.problems.map(formatProblem).join('\n'))
  process.exitCode = 1
}
