import t from 'tap'
import { z } from '../../src/config/schema.ts'
import { parseFields, printable } from '../../src/http/fields.ts'

const schema = z.strictObject({
  name: z.string({ error: 'write text' }),
  pairs: z.record(z.string(), z.string({ error: 'write text' })).optional(),
})
const loose = z.strictObject({ name: z.string().optional() })
const parse = (text: string) => parseFields(Buffer.from(text), schema)

t.test('a good body is its fields, and none at all is an empty one', async (t) => {
  t.same(parse('{"name":"a","pairs":{"k":"v"}}'), { name: 'a', pairs: { k: 'v' } })
  t.same(parseFields(Buffer.alloc(0), loose), {})
  t.same(parseFields(Buffer.from(' {} '), loose), {})
  t.same(parse(`{"name":"${'x'.repeat(2 ** 20)}"}`).name.length, 2 ** 20)
})

t.test('each fault has its code and its field', async (t) => {
  const cases: [string, string, string | undefined][] = [
    ['{}', 'missing_parameter', 'name'],
    ['{"nmae":"a"}', 'unknown_parameter', 'nmae'],
    ['{"name":"a","__proto__":{}}', 'unknown_parameter', '__proto__'],
    ['{"name":1}', 'invalid_parameter', 'name'],
    ['{"name":null}', 'invalid_parameter', 'name'],
    ['{"name":"a","pairs":{"k":1}}', 'invalid_parameter', 'pairs.k'],
    ['{"name":"a","name":"b"}', 'invalid_json', undefined],
    ['{"Name":"a"}', 'invalid_json', undefined],
    ['{"n\\u0061me":"a"}', 'invalid_json', undefined],
    ['', 'missing_parameter', 'name'],
    [' ', 'invalid_json', undefined],
    ['[]', 'invalid_json', undefined],
    ['{"name":"a"', 'invalid_json', undefined],
    ['{"name":"a"}}', 'invalid_json', undefined],
    [`{"name":${'['.repeat(65)}${']'.repeat(65)}}`, 'invalid_json', undefined],
  ]
  for (const [text, code, param] of cases) t.throws(() => parse(text), { code, param }, text)
  t.throws(() => parseFields(Buffer.from([0x7b, 0xff, 0x7d]), schema), { code: 'invalid_json' })
})

t.test('a missing choice is missing, as a missing text is', async (t) => {
  const choices = z.strictObject({
    vote: z.enum(['up', 'down']),
    of: z.strictObject({ kind: z.union([z.literal('a'), z.int()]) }),
  })
  const read = (text: string) => parseFields(Buffer.from(text), choices)
  t.throws(() => read('{"of":{"kind":1}}'), { code: 'missing_parameter', param: 'vote' })
  t.throws(() => read('{"vote":"up","of":{}}'), { code: 'missing_parameter', param: 'of.kind' })
  t.throws(() => read('{"vote":"x"}'), { code: 'invalid_parameter', param: 'vote' })
  t.throws(() => read('{"vote":null}'), { code: 'invalid_parameter', param: 'vote' })
})

t.test('text for people has no control characters', async (t) => {
  const text = printable(10)
  for (const good of ['', 'é 😀', '"<b>', '\u00a0']) t.ok(text.safeParse(good).success, good)
  for (const bad of ['\0', 'a\nb', '\u001b[', '\u007f', '\u0085', '\ud83d', 'x'.repeat(11)]) {
    t.notOk(text.safeParse(bad).success, JSON.stringify(bad))
  }
})
