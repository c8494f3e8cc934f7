// That answers have these headers, and no others, is tested by test/docs-api-answers.ts.

import t from 'tap'
import { headerNamed, requestHeaders, responseHeaders } from '../../src/openapi/headers.ts'

t.test('a header is found by its name, and a strange one is refused', async (t) => {
  t.match(headerNamed(responseHeaders, 'Retry-After').names, ['Retry-After', 'retry-after-ms'])
  t.throws(() => headerNamed(requestHeaders, 'Strange'))
})

t.test('no name stands twice, in whatever case', async (t) => {
  for (const rows of [requestHeaders, responseHeaders]) {
    const names = rows.flatMap((row) => row.names.map((name) => name.toLowerCase()))
    t.equal(new Set(names).size, names.length)
  }
})
