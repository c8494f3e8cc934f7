// `npm start` on a Node that cannot read TypeScript, without the pinned Node.

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { runProcess } from '../fixtures/process.ts'
import { root } from '../fixtures/source.ts'

const wrapper = join(root, 'src/tollgate.cjs')

const run = (t: Test, ...words: readonly string[]) => runProcess(t, [process.execPath, ...words])

/** Fails to read the file, as Node 20 does. */
const asNode20 = (t: Test) => {
  const versions = `{ value: { ...process.versions, node: '20.20.2' } }`
  const dir = t.testdir({ 'old.cjs': `Object.defineProperty(process, 'versions', ${versions})` })
  return ['--require', join(dir, 'old.cjs'), '--no-strip-types', wrapper]
}

t.test('it says in one line what to run', async (t) => {
  const { code, out, err } = await run(t, ...asNode20(t), 'start')
  t.same([code, out], [1, ''])
  t.match(err, /^tollgate: this is Node 20\.20\.2, .*24 or later\. .*`npm start`.*\n$/)
})

t.test('it is the command line, if Node can run it', async (t) => {
  const { code, out } = await run(t, wrapper, 'version')
  t.same([code, out], [0, `${(await manifest()).version}\n`])
  t.equal((await run(t, wrapper, 'strat')).code, 2)
})

t.test('npm runs it, and the required engines are declared', async (t) => {
  t.match(await manifest(), {
    engines: { node: '>=24' },
    bin: { tollgate: 'src/tollgate.cjs' },
    scripts: {
      start: /^exec node (--\S+ )*src\/tollgate\.cjs start$/,
      tollgate: 'exec node src/tollgate.cjs',
    },
  })
})

async function manifest(): Promise<{ readonly version: string }> {
  return JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string }
}
