// That answers have these fields is tested by test/docs-api-answers.ts, and by the fuzz.

import t from 'tap'
import { adminObjects } from '../../src/openapi/admin-objects.ts'
import { objects } from '../../src/openapi/objects.ts'
import { pageObjects } from '../../src/openapi/page-objects.ts'
import type { Fields } from '../../src/openapi/fields.ts'
import { tableBelow } from '../fixtures/api-page.ts'

t.test('docs/api.md has each object, with its fields in this order', async (t) => {
  for (const [title, fields] of Object.entries<Fields>({
    ...objects,
    ...pageObjects,
    ...adminObjects,
  })) {
    const top = tableBelow(title).filter(([name = '']) => !name.includes('.'))
    t.strictSame(
      top.map(([name]) => name),
      Object.keys(fields).map((name) => `\`${name}\``),
      title,
    )
  }
})
