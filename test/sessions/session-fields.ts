import t from 'tap'
import { sessionSchema } from '../../src/sessions/session-fields.ts'

const takes = (fields: unknown) => sessionSchema.safeParse(fields).success

t.test('characters are counted, not the units of UTF-16', async (t) => {
  t.ok(takes({ title: '𝄞'.repeat(200) }))
  t.notOk(takes({ title: '𝄞'.repeat(201) }))
  t.notOk(takes({ title: '\ud834' }), 'half a character')
})

t.test('metadata are at most 16 pairs of short texts, and none is lost', async (t) => {
  const pairs = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, 'v']))
  t.ok(takes({ metadata: pairs(16) }))
  t.notOk(takes({ metadata: pairs(17) }))
  t.notOk(takes({ metadata: { a: 1 } }))
  t.notOk(takes({ metadata: JSON.parse('{"__proto__":"x"}') }))
})

t.test('null clears a field, and a strange field is refused', async (t) => {
  t.ok(takes({ title: null, model: null, instructions: null, metadata: null }))
  t.ok(takes({}))
  t.notOk(takes({ strange: 1 }))
})
