// An operator's module is used by what it exports.

import { fileURLToPath } from 'node:url'
import t from 'tap'
import { importPlugin } from '../../src/config/own-plugin.ts'

t.test('a module that exports `plugin` is taken as it is', async (t) => {
  const path = fileURLToPath(new URL('../../config/examples/plugins/redact.ts', import.meta.url))
  t.equal((await importPlugin(path)).name, 'redact')
})

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
