// The crate as a new user has it: packed, unpacked, and built in an empty project, where its README and its examples
// run against a real gateway.

import assert from 'node:assert/strict'
import { cp, mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { cacheFolder } from '../../../../scripts/cache.ts'
import type { Gate } from '../../language.ts'
import { strangerIn } from '../install.ts'
import { blocksOf, environmentOf, outputOf } from '../tools.ts'
import { cargo, home, target } from './cargo.ts'

const crate = 'tollgate-gateway-0.1.0'
/** The paths are always the same, because cargo recognises its builds by their path. */
const folder = join(cacheFolder(), 'rust-package')
const stranger = join(cacheFolder(), 'rust-stranger')
const project = join(folder, 'project')
/** What the first example prints. */
const talked = /\w+[^]*\ncompleted, \d+ tokens/
/** What the user of the interactive example types. */
const input = 'Hello!\nAnd again.\n'
const wanted = ['Cargo.toml', 'Cargo.lock', 'LICENSE', 'README.md', 'CHANGELOG.md']

export async function checkPackage(gate: Gate): Promise<void> {
  await makeProject()
  const [first = ''] = await blocks()
  assert.match(first, /async fn main/)
  await build({ first })
  assert.match(await said('first', gate), talked)
}

/** Installs from a clone, as the README says. */
export async function checkInstall(gate: Gate): Promise<void> {
  await rm(stranger, { recursive: true, force: true })
  const { cwd, install } = await strangerIn(stranger, 'rust')
  // The same versions as in all other checks, as far as they can still be found.
  await cp(join(home, 'Cargo.lock'), join(cwd, 'Cargo.lock'))
  await install()
  const [first = ''] = await blocksOf(join(home, 'README.md'), 'rust')
  await writeFile(join(cwd, 'src/main.rs'), first)
  const printed = await cargo(['run', '--quiet'], { cwd, env: environmentOf(gate) })
  assert.match(printed, talked)
}

export async function checkExamples(gate: Gate): Promise<void> {
  await makeProject()
  const [, ...others] = await blocks()
  const programs: Record<string, string> = {}
  for (const name of await readdir(join(folder, crate, 'examples'))) {
    const text = await readFile(join(folder, crate, 'examples', name), 'utf8')
    programs[`example_${name.replace(/\.rs$/, '')}`] = text
  }
  for (const [i, text] of others.entries()) programs[`readme_${i + 1}`] = whole(text)
  await build(programs)
  for (const name of Object.keys(programs)) {
    assert.notEqual(await said(name, gate), '', `${name} says nothing`)
  }
}

/** Packs the working tree, committed or not. */
async function makeProject(): Promise<void> {
  const words = ['package', '--locked', '--quiet', '--package', 'tollgate-gateway']
  await cargo([...words, '--allow-dirty', '--no-verify'])
  await rm(join(folder, crate), { recursive: true, force: true })
  await mkdir(join(project, 'src/bin'), { recursive: true })
  // Sets the time of the files to now: in an archive all times are equal, and cargo looks only at the time.
  await outputOf('tar', ['-xmzf', join(target, 'package', `${crate}.crate`), '-C', folder])
  const packed = await readdir(join(folder, crate))
  for (const name of wanted) assert.ok(packed.includes(name), `${name} is not in the crate`)
  assert.ok(!packed.includes('conformance'), 'the driver is in the crate')
}

/** Checks the unpacked crate; built like the driver, so that both share their builds. */
async function build(programs: Readonly<Record<string, string>>): Promise<void> {
  const manifest = await readFile(join(home, 'Cargo.toml'), 'utf8')
  const text = [
    '[package]\nname = "stranger"\nversion = "0.0.0"\nedition = "2024"\n',
    `[dependencies]\ntollgate-gateway = { path = "../${crate}" }`,
    'tokio = { version = "1", features = ["macros", "rt-multi-thread"] }\n',
    manifest.slice(manifest.indexOf('[profile.dev]')),
  ]
  await rm(join(project, 'src/bin'), { recursive: true, force: true })
  await mkdir(join(project, 'src/bin'), { recursive: true })
  await writeFile(join(project, 'Cargo.toml'), text.join('\n'))
  // The same versions as in all other checks.
  await cp(join(home, 'Cargo.lock'), join(project, 'Cargo.lock'))
  for (const [name, program] of Object.entries(programs)) {
    await writeFile(join(project, 'src/bin', `${name}.rs`), program)
  }
  await cargo(['build', '--quiet'], { cwd: project })
}

function said(name: string, gate: Gate): Promise<string> {
  return outputOf(join(target, 'debug', name), [], {
    cwd: project,
    env: environmentOf(gate),
    input,
  })
}

/** Turns a function of the README into a program that calls it. */
function whole(block: string): string {
  const name = /async fn (\w+)/.exec(block)?.[1] ?? ''
  return `mod readme {
${block.replace('async fn', 'pub async fn')}}

#[tokio::main]
async fn main() -> tollgate_gateway::Result<()> {
    let client = tollgate_gateway::Client::from_env()?;
    let session = client.sessions().create(tollgate_gateway::SessionParams::new()).await?;
    readme::${name}(&client, &session).await
}
`
}

function blocks(): Promise<readonly string[]> {
  return blocksOf(join(folder, crate, 'README.md'), 'rust')
}
