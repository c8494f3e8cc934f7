// Writes what is generated from the configuration's schemas: config/gateway.schema.json and docs/configuration.md.
// `node scripts/generate.ts`; with `--check` it changes nothing and exits 1 when a file is stale.

import { readFile, writeFile } from 'node:fs/promises'
import { format, resolveConfig } from 'prettier'
import { jsonSchema, reference } from '../src/config/reference.ts'
import { plugins } from '../src/gateway.ts'

const files = {
  'config/gateway.schema.json': `${JSON.stringify(jsonSchema(plugins), null, 2)}\n`,
  'docs/configuration.md': await format(reference(plugins), {
    ...(await resolveConfig(import.meta.filename)),
    parser: 'markdown',
  }),
}

for (const [name, text] of Object.entries(files)) {
  const file = new URL(`../${name}`, import.meta.url)
  const present = await readFile(file, 'utf8').catch(() => '')
  if (present === text) continue
  if (process.argv.includes('--check')) {
    console.error(`${name} is stale; run: node scripts/generate.ts`)
    process.exitCode = 1
  } else {
    await writeFile(file, text)
    console.log(`${name} written`)
  }
}
