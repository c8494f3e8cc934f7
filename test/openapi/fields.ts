import t from 'tap'
import {
  componentName,
  either,
  id,
  inner,
  listOf,
  nothing,
  oneOf,
  orNull,
  ref,
  schemaOf,
  seconds,
  text,
  unlinked,
  whole,
} from '../../src/openapi/fields.ts'

t.test('a field that ends in ? may be absent, and every other one is required', async (t) => {
  t.strictSame(schemaOf({ a: text(), 'b?': whole() }), {
    type: 'object',
    properties: { a: { type: 'string' }, b: { type: 'integer' } },
    required: ['a'],
  })
  t.notOk('required' in schemaOf({ 'b?': whole() }))
})

t.test('null is ruled out unless the field may be null', async (t) => {
  t.strictSame(text().schema, { type: 'string' })
  t.strictSame(orNull(text()).schema, { type: ['string', 'null'] })
  t.strictSame(orNull(oneOf('a b')).schema, { type: ['string', 'null'], enum: ['a', 'b', null] })
  t.strictSame(orNull(oneOf('a')).schema, {
    anyOf: [{ type: 'string', const: 'a' }, { type: 'null' }],
  })
  t.strictSame(orNull(either([text(), listOf(ref('Text part'))])).schema, {
    anyOf: [
      {
        anyOf: [
          { type: 'string' },
          { type: 'array', items: { $ref: '#/components/schemas/TextPart' } },
        ],
      },
      { type: 'null' },
    ],
  })
  t.strictSame(nothing().schema, { type: 'null' })
})

t.test('the words for docs/api.md tell the same as the schema', async (t) => {
  t.equal(orNull(text()).kind, 'text or null')
  t.equal(oneOf('a b').kind, '`a`, `b`')
  t.equal(orNull(either([text(), listOf({})])).kind, 'text, list or null')
  t.equal(seconds().kind, 'Unix seconds')
  t.equal(inner({}).kind, 'object')
})

t.test('an id has its prefix and 32 hex digits', async (t) => {
  const pattern = new RegExp(String(id('msg').schema['pattern']))
  t.match(`msg_${'0a'.repeat(16)}`, pattern)
  t.notMatch(`msg_${'0A'.repeat(16)}`, pattern)
  t.notMatch(`sess_${'0a'.repeat(16)}`, pattern)
})

t.test('a description has no links, which would lead nowhere', async (t) => {
  t.equal(unlinked('see [errors.md](errors.md), or [it](#a)'), 'see errors.md, or it')
  const { properties } = schemaOf({ a: text('[it](#a)') })
  t.strictSame(properties, { a: { type: 'string', description: 'it' } })
})

t.test('a title is a name without spaces', async (t) => {
  t.equal(componentName('Usage row'), 'UsageRow')
})
