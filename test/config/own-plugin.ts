// An operator's module is used by what it exports. One that is taken: test/plugin-api.ts.

import t from 'tap'
import { importPlugin } from '../../src/config/own-plugin.ts'

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
