// `npm run -s sbom`: prints what runs as a CycloneDX document: that of `npm sbom`, without what only develops and tests. (Its own
// `--omit dev` also leaves out packages that the tests need, too, such as all of S3.) Needs what `npm ci` has installed.

import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { promisify } from 'node:util'

interface Component {
  readonly 'bom-ref': string
  readonly properties?: readonly { readonly name: string; readonly value: string }[]
}

interface Bom {
  readonly metadata: { readonly component: Component }
  readonly components: readonly Component[]
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn?: readonly string[] }[]
}

const root = resolve(import.meta.dirname, '..')
const { name } = JSON.parse(readFileSync(resolve(root, 'package.json'), 'utf8')) as { name: string }
const maxBuffer = 64 * 2 ** 20
const { stdout } = await promisify(execFile)('npm', ['sbom', '--sbom-format', 'cyclonedx'], {
  cwd: root,
  maxBuffer,
})
const { metadata, components, dependencies, ...rest } = JSON.parse(stdout) as Bom
const running = components.filter(({ properties }) => !properties?.some(isForDevelopment))
const own = metadata.component['bom-ref']
const refs = new Set([own, ...running.map((component) => component['bom-ref'])])
const kept = dependencies
  .filter(({ ref }) => refs.has(ref))
  .map(({ ref, dependsOn = [] }) => ({ ref, dependsOn: dependsOn.filter((one) => refs.has(one)) }))
const bom = {
  ...rest,
  // npm gives the name of the folder.
  metadata: { ...metadata, component: { ...metadata.component, name } },
  components: running,
  dependencies: kept,
}
process.stdout.write(`${JSON.stringify(bom, undefined, 2)}\n`)

function isForDevelopment(property: { readonly name: string; readonly value: string }): boolean {
  return property.name === 'cdx:npm:package:development' && property.value === 'true'
}
