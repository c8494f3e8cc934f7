// An operator's module is used by what it exports. One that is taken: test/plugin-api.ts.

import { mock } from 'node:test'
import t from 'tap'
import { writeFile } from 'node:fs/promises'
import { importPlugin } from '../../src/config/own-plugin.ts'
import { ReadFiles } from '../../src/config/read-files.ts'
import { GatewayError } from '../../src/errors.ts'

t.test('a module without one is refused, and so is one that throws', async (t) => {
  const dir = t.testdir({
    'none.mjs': 'export const other = 1',
    'half.mjs': "export const plugin = { name: 'x' }",
    'broken.mjs': "throw new Error('its own words')",
  })
  await t.rejects(importPlugin(`${dir}/none.mjs`), { message: /does not export/ })
  await t.rejects(importPlugin(`${dir}/half.mjs`), { message: /does not export/ })
  await t.rejects(importPlugin(`${dir}/broken.mjs`), { message: 'its own words' })
  await t.rejects(importPlugin(`${dir}/missing.mjs`), { code: 'ERR_MODULE_NOT_FOUND' })
})

t.test('a module that never ends to load is refused', async (t) => {
  const dir = t.testdir({ 'endless.mjs': 'await new Promise(() => undefined)' })
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const importing = importPlugin(`${dir}/endless.mjs`)
  mock.timers.tick(60_000)
  await t.rejects(importing, { message: 'its import took more than 60000 ms' })
})

const text = (word: string) => `
  import { word } from './helper.ts'
  export const plugin = { name: word, schema: {}, setup: () => ({}), has: '${word}' as string }
`

t.test('a plugin is imported anew when one of its files has changed, and only then', async (t) => {
  const dir = t.testdir({ 'mine.ts': text('a'), 'helper.ts': "export const word = 'one'" })
  const file = `${dir}/mine.ts`
  const read = new ReadFiles()
  const first = await importPlugin(file, read)
  t.equal(first.name, 'one')
  t.same([...read.digests.keys()].toSorted(), [`${dir}/helper.ts`, file], 'both are watched')
  t.equal(await importPlugin(file), first)
  await writeFile(`${dir}/helper.ts`, "export const word = 'two'")
  const second = await importPlugin(file)
  t.equal(second.name, 'two')
  await writeFile(file, 'export const plugin = {')
  const broken = new ReadFiles()
  await t.rejects(importPlugin(file, broken))
  t.ok(broken.digests.has(file), 'a file that cannot be imported is watched, too')
  await writeFile(file, text('b'))
  t.match(await importPlugin(file), { name: 'two', has: 'b' })
})

t.test('the gateway has one copy of its own modules, whatever a plugin imports', async (t) => {
  const errors = new URL('../../src/errors.ts', import.meta.url).pathname
  const dir = t.testdir({
    'mine.ts': `
      import { GatewayError } from '${errors}'
      import { GatewayError as Same } from 'tollgate/plugin'
      export const plugin = { name: 'x', schema: {}, setup: () => ({}), has: [GatewayError, Same] }
    `,
  })
  t.match(await importPlugin(`${dir}/mine.ts`), { has: [GatewayError, GatewayError] })
})
