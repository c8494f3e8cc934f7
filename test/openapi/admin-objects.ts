// test/openapi/objects.ts finds them in docs/api.md.

import t from 'tap'
import { adminObjects } from '../../src/openapi/admin-objects.ts'
import { objects } from '../../src/openapi/objects.ts'

t.test('no title is that of a public object', async (t) => {
  for (const title of Object.keys(adminObjects)) t.notOk(Object.hasOwn(objects, title), title)
})
