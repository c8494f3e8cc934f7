// test/openapi/objects.ts finds them in docs/api.md, and test/docs-api-answers.ts in answers.

import t from 'tap'
import { adminObjects } from '../../src/openapi/admin-objects.ts'
import { objects } from '../../src/openapi/objects.ts'
import { pageObjects } from '../../src/openapi/page-objects.ts'

t.test('no title is that of another object', async (t) => {
  for (const title of Object.keys(pageObjects)) {
    t.notOk(Object.hasOwn(objects, title), title)
    t.notOk(Object.hasOwn(adminObjects, title), title)
  }
})
