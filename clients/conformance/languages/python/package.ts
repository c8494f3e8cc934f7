// The package as a new user has it: built, installed from its archive into an empty project, with its README and
// examples run there against a real gateway, and checked with its own types.

import assert from 'node:assert/strict'
import { cp, readFile, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { cacheFolder, ensureMade } from '../../../../scripts/cache.ts'
import type { Gate } from '../../language.ts'
import { asStranger } from '../install.ts'
import { blocksOf, environmentOf, hashOf, inFolder } from '../tools.ts'
import { ensureTools, home, outputOf } from './tools.ts'

/** The lines with which the other blocks of the README begin. */
const before = `from tollgate_gateway import Tollgate

gate = Tollgate()
session = gate.sessions.create()
`
/** Paths of the sources that the package must not contain. */
const unwanted = /^(conformance|tests)\//

export async function checkPackage(gate: Gate): Promise<void> {
  const project = await ensureProject()
  const names = await outputOf('tar', ['-tzf', join(project, 'sdist.tar.gz')])
  const paths = names.split('\n').map((name) => name.replace(/^[^/]*\//, ''))
  for (const path of ['LICENSE', 'README.md', 'CHANGELOG.md', 'src/tollgate_gateway/py.typed']) {
    assert.ok(paths.includes(path), `${path} is not in the archive`)
  }
  assert.deepEqual(
    paths.filter((path) => unwanted.test(path)),
    [],
  )
  await inFolder((folder) => checkFirstExample(project, folder, gate))
}

/** Installs from a clone, as the README says. */
export async function checkInstall(gate: Gate): Promise<void> {
  await asStranger('python', async ({ cwd, install }) => {
    const project = join(cwd, '.venv')
    await outputOf('python3', ['-m', 'venv', project], { cwd })
    await install({ PATH: `${join(project, 'bin')}:${process.env.PATH ?? ''}`, PYTHONPATH: '' })
    await checkFirstExample(project, cwd, gate)
  })
}

async function checkFirstExample(project: string, cwd: string, gate: Gate): Promise<void> {
  const [first = ''] = await blocks()
  const said = await runIn(project, cwd, { name: 'first.py', text: first }, gate)
  assert.match(said, /\w+[^]*\ncompleted, \d+ tokens/)
}

export async function checkExamples(gate: Gate): Promise<void> {
  const project = await ensureProject()
  const [, ...others] = await blocks()
  await inFolder(async (folder) => {
    const programs = others.map((block, i) => ({ name: `readme_${i + 1}.py`, text: whole(block) }))
    for (const name of await readdir(join(home, 'examples'))) {
      programs.push({ name, text: await readFile(join(home, 'examples', name), 'utf8') })
    }
    for (const program of programs) {
      const said = await runIn(project, folder, program, gate)
      assert.notEqual(said, '', `${program.name} says nothing`)
    }
    await checkTyped(project, folder)
  })
}

/** Checks with the types that the package contains. */
async function checkTyped(project: string, cwd: string): Promise<void> {
  const cache = join(cacheFolder(), 'python-mypy-examples')
  const where = ['--python-executable', join(project, 'bin/python'), '--cache-dir', cache]
  const words = ['-m', 'mypy', '--strict', ...where, '.']
  await outputOf(await ensureTools(), words, { cwd, env: { PYTHONPATH: '' } })
}

/** Makes an environment with the package and its dependencies from the wheel; the archive is beside it. */
async function ensureProject(): Promise<string> {
  const tools = await ensureTools()
  return await ensureMade(`python-package-${await hashOf(home)}`, (fresh) =>
    inFolder(async (folder) => {
      await cp(home, join(folder, 'sources'), { recursive: true })
      const dist = join(folder, 'dist')
      // The wheel is built from the archive, as it is for users of a registry.
      const words = ['-m', 'build', '--no-isolation', '--outdir', dist, join(folder, 'sources')]
      await outputOf(tools, words, { cwd: folder })
      const made = await readdir(dist)
      const wheel = made.find((name) => name.endsWith('.whl')) ?? ''
      const archive = made.find((name) => name.endsWith('.tar.gz')) ?? ''
      await cp(join(dist, archive), join(fresh, 'sdist.tar.gz'))
      await outputOf(tools, ['-m', 'venv', '--without-pip', fresh])
      const install = ['-m', 'pip', '--python', join(fresh, 'bin/python'), 'install', '--quiet']
      await outputOf(tools, [...install, '--disable-pip-version-check', join(dist, wheel)])
    }),
  )
}

interface Program {
  readonly name: string
  readonly text: string
}

async function runIn(
  project: string,
  cwd: string,
  { name, text }: Program,
  gate: Gate,
): Promise<string> {
  await writeFile(join(cwd, name), text)
  const env = { PYTHONPATH: '', ...environmentOf(gate) }
  const words = ['-W', 'error::ResourceWarning', name, ...(name === 'chat.py' ? ['Hello'] : [])]
  return await outputOf(join(project, 'bin/python'), words, { cwd, env })
}

function whole(block: string): string {
  return /import .*\bTollgate\b|AsyncTollgate/.test(block) ? block : `${before}${block}`
}

function blocks(): Promise<readonly string[]> {
  return blocksOf(join(home, 'README.md'), 'python')
}
