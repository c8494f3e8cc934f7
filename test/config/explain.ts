import t from 'tap'
import { explain, findings, show } from '../../src/config/explain.ts'
import { formatPath } from '../../src/config/problem.ts'
import { secret, z } from '../../src/config/schema.ts'

const told = (schema: z.ZodType, value: unknown, hidden: readonly unknown[] = []) => {
  const result = schema.safeParse(value, { error: explain((input) => hidden.includes(input)) })
  return findings(result.error?.issues ?? []).map(
    ({ path, message }) => `${formatPath(path)}: ${message}`,
  )
}

t.test('a problem says what is there and what would be right', async (t) => {
  t.same(told(z.object({ a: z.string() }), {}), ['a: is missing; write text'])
  t.same(told(z.object({ a: z.int() }), { a: '8' }), [
    'a: expected a number, got "8"; remove the quotes',
  ])
  t.same(told(z.object({ a: z.string() }), { a: 8 }), ['a: expected text, got 8; put it in quotes'])
  t.same(told(z.object({ a: z.enum(['chat', 'done']) }), { a: 'chta' }), [
    'a: "chta" is not allowed; did you mean "chat"?',
  ])
  t.same(told(z.object({ a: z.literal(true) }), { a: 5 }), ['a: 5 is not allowed; write true'])
  t.same(told(z.object({ a: z.int().max(3) }), { a: 4 }), ['a: is out of range; at most 3, got 4'])
  t.same(told(z.object({ a: z.string().max(2) }), { a: 'abc' }), [
    'a: is too long; at most 2 characters',
  ])
  t.same(told(z.object({ a: z.array(z.int()).max(1) }), { a: [1, 2] }), [
    'a: has too many items; at most 1',
  ])
})

t.test('for a union, the problem is that of the most similar alternative', async (t) => {
  const schema = z.object({ a: z.union([z.boolean(), z.object({ b: z.int(), c: z.int() })]) })
  t.same(told(schema, { a: { b: 'x', c: 1 } }), ['a.b: expected a number, got "x"'])
  t.same(told(schema, { a: 'x' }), ['a: is not acceptable, got "x"'])
})

t.test('for a wrong key, the place is the key itself', async (t) => {
  const schema = z.record(z.string().regex(/^a/, { error: 'begins with a' }), z.int())
  t.same(told(schema, { b: 1 }), ['b: begins with a'])
  t.same(told(z.strictObject({}), { b: 1 }), ['b: unknown key'])
})

t.test('secrets and replaced values are never shown', async (t) => {
  t.same(told(z.object({ a: secret() }), { a: 42 }), ['a: expected text; put it in quotes'])
  t.same(told(z.object({ a: z.int() }), { a: 'x' }, ['x']), ['a: expected a number'])
  t.same(told(z.object({ a: z.enum(['on']) }), { a: 'no' }, ['no']), [
    'a: is not allowed; write on',
  ])
})

t.test('long values are shortened', async (t) => {
  t.ok((show('x'.repeat(1000)) ?? '').length <= 60)
  t.equal(show([1]), 'a list')
  t.equal(show({}), 'a block of keys')
})
