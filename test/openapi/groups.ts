import t from 'tap'
import { plugins } from '../../src/gateway.ts'
import { groups } from '../../src/openapi/groups.ts'
import { checkOperations } from '../fixtures/operations.ts'

t.test('each group is of a plugin, and no operation is in two', async (t) => {
  const names = plugins.map(({ name }) => name)
  for (const { plugin } of groups) t.ok(names.includes(plugin), plugin)
  const lines = groups.flatMap(({ operations }) => Object.keys(operations))
  t.equal(new Set(lines).size, lines.length)
})

t.test('all operations keep to the rules', async (t) => {
  for (const { operations } of groups) checkOperations(t, operations)
})
