// The README's examples and those of examples/, as a user would run them: in a project that has the package from its
// archive, against a real gateway.

import assert from 'node:assert/strict'
import { cp, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Gate } from '../../language.ts'
import { ensurePackages, home } from './build.ts'
import { blocksOf, environmentOf, outputOf } from '../tools.ts'

/** The lines with which the other examples of the README begin. */
const before = `const gate = new Tollgate()
const session = await gate.sessions.create()
`
const options = {
  target: 'es2022',
  module: 'nodenext',
  strict: true,
  noEmit: true,
}
const page = `import { Tollgate } from 'tollgate-gateway'
export const gate = new Tollgate({ apiKey: 'k', baseURL: 'https://gate.example.com' })
`

export async function checkFirstExample(folder: string, gate: Gate): Promise<void> {
  const [first = ''] = await blocks()
  await writeFile(join(folder, 'first.ts'), first)
  const said = await outputOf(process.execPath, ['first.ts'], { cwd: folder, env: envOf(gate) })
  assert.match(said, /\w+[^]*\ncompleted, for \d+ tokens/)
}

export async function checkExamples(folder: string, gate: Gate): Promise<void> {
  const [, ...others] = await blocks()
  const files = await readdir(join(home, 'examples'))
  for (const file of files) await cp(join(home, 'examples', file), join(folder, file))
  for (const [i, block] of others.entries()) {
    const name = `readme-${i + 1}.ts`
    await writeFile(join(folder, name), whole(block))
    files.push(name)
  }
  await cp(join(home, 'README.md'), join(folder, 'README.md'))
  await checkTypes(folder)
  for (const file of files) {
    const said = await outputOf(process.execPath, [file], { cwd: folder, env: envOf(gate) })
    assert.notEqual(said, '', `${file} says nothing`)
  }
}

/** Uses the package's own declarations: in Node, and without any types of Node. */
async function checkTypes(folder: string): Promise<void> {
  const packages = await ensurePackages()
  const check = async (compilerOptions: object, files?: readonly string[]) => {
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }))
    await outputOf(join(packages, '.bin/tsc'), ['-p', '.'], { cwd: folder })
  }
  await check({ ...options, types: ['node'], typeRoots: [join(packages, '@types')] })
  await writeFile(join(folder, 'page.ts'), page)
  await check({ ...options, types: [], lib: ['es2022', 'dom'] }, ['page.ts'])
}

function whole(block: string): string {
  const own = /const gate =/.test(block) ? '' : before
  const known = /import \{[^}]*\bTollgate\b[^}]*\} from 'tollgate-gateway'/.test(block)
  return `${known ? '' : "import { Tollgate } from 'tollgate-gateway'\n"}${own}${block}`
}

function blocks(): Promise<readonly string[]> {
  return blocksOf(join(home, 'README.md'), 'ts')
}

/** The default settings, for a user who has set up nothing. */
function envOf(gate: Gate): Readonly<Record<string, string>> {
  return { ...environmentOf(gate), NODE_OPTIONS: '', NODE_NO_WARNINGS: '1' }
}
