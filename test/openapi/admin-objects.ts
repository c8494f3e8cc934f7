import t from 'tap'
import { adminObjects } from '../../src/openapi/admin-objects.ts'
import { objects } from '../../src/openapi/objects.ts'
import { tableBelow } from '../fixtures/api-page.ts'

t.test('docs/api.md has each object of the operator, with its fields in this order', async (t) => {
  for (const [title, fields] of Object.entries(adminObjects)) {
    const top = tableBelow(title).filter(([name = '']) => !name.includes('.'))
    t.strictSame(
      top.map(([name]) => name),
      Object.keys(fields).map((name) => `\`${name}\``),
      title,
    )
  }
})

t.test('no title is that of a public object', async (t) => {
  for (const title of Object.keys(adminObjects)) t.notOk(Object.hasOwn(objects, title), title)
})
