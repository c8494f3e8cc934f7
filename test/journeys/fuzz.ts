// What the OpenAPI document says of every route is what the gateway does, for whatever schemathesis makes of the
// document's schemas. For longer, with other seeds: `npm run fuzz`.

import t from 'tap'
import { fuzz } from '../../scripts/fuzz/fuzz.ts'
import { groups } from '../../src/openapi/groups.ts'
import { parseLine } from '../../src/openapi/operation.ts'

t.test('no 5xx, no undocumented status, nothing against its schema', async (t) => {
  await using undo = new AsyncDisposableStack()
  const { isGood, lines, seen } = await fuzz(undo, { seed: 20_261_124, examples: 15 })
  t.ok(isGood, { lines: lines.slice(-200) })
  const operations = groups.flatMap(({ operations }) => Object.entries(operations))
  for (const [line, { replies }] of operations) {
    const { method, paths } = parseLine(line)
    const good = Object.keys(replies).filter((status) => status.startsWith('2') || status === '303')
    for (const path of paths) {
      const wasServed = good.some((status) => seen.has(`${method} ${path} ${status}`))
      const came = [...seen].filter((one) => one.startsWith(`${method} ${path} `))
      t.ok(wasServed, `${method} ${path} was served: ${came.join(', ')}`)
    }
  }
})
