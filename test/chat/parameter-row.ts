// src/chat/parameter-row.ts: what the table of endpoints says of their own fields is in the table of parameters, once.

import t from 'tap'
import { endpoints, fieldsOf } from '../../src/config/endpoints.ts'
import { ownRows, row } from '../../src/chat/parameter-row.ts'

t.test('a row has its names one by one', (t) => {
  const {
    names,
    endpoints: on,
    way,
  } = row('passes', ['chat'], ' top_k\n  min_p ', { why: 'Sampling.' })
  t.strictSame({ names, on, way }, { names: ['top_k', 'min_p'], on: ['chat'], way: 'passes' })
  t.end()
})

t.test(
  'an endpoint that generates nothing has one row with its fields; the others have none',
  (t) => {
    for (const one of endpoints) {
      const rows = ownRows().filter((row) => row.endpoints.includes(one.endpoint))
      t.strictSame(
        rows.map(({ names, way }) => ({ names, way })),
        one.generates ? [] : [{ names: fieldsOf(one), way: 'gateway' }],
        one.endpoint,
      )
    }
    const both = ownRows().find(({ names }) => names.includes('input'))
    t.strictSame(both?.endpoints, ['embeddings', 'moderations'], 'those alike share a row')
    t.end()
  },
)
