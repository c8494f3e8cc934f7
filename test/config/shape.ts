import t from 'tap'
import { fit } from '../../src/config/shape.ts'
import {
  decimal,
  path,
  pemFile,
  secret,
  withLater,
  z,
  type Schema,
} from '../../src/config/schema.ts'
import { substitute } from '../../src/config/substitute.ts'
import { parseTree } from '../../src/config/tree.ts'

const env = { EIGHT: '8', HALF: '-0.5', TRUE: 'true', WORD: 'word' }

const fitted = async (schema: Schema, yaml: string) => {
  const { tree } = await substitute(parseTree(yaml).tree, { env, folder: '.' })
  return fit(schema, tree, (file) => `/folder/${file}`)
}

t.test('text from outside becomes what the schema takes, text in the file does not', async (t) => {
  const schema = z.object({
    number: z.int().optional(),
    either: z.union([z.number(), z.object({ inner: z.number() })]).optional(),
    text: z.union([z.number(), z.string()]).optional(),
    flag: z.boolean().default(false),
    off: z.union([z.literal(false), z.object({})]).optional(),
  })
  const value = async (yaml: string) => (await fitted(schema, yaml)).value
  t.match(await value('number: "${EIGHT}"'), { number: 8 })
  t.match(await value('number: "8"'), { number: '8' })
  t.match(await value('number: "${WORD}"'), { number: 'word' })
  t.match(await value('either: "${HALF}"'), { either: -0.5 })
  t.match(await value('either: {inner: "${EIGHT}"}'), { either: { inner: 8 } })
  t.match(await value('text: "${EIGHT}"'), { text: '8' })
  t.match(await value('flag: "${TRUE}"'), { flag: true })
  t.match(await value('off: "${TRUE}"'), { off: true })
})

t.test('unknown keys are found even if zod would let them pass', async (t) => {
  const schema = z.object({ inner: z.object({ word: z.string().optional() }) })
  const { problems, value } = await fitted(schema, 'inner: {wrod: a}\nother: 1')
  t.match(problems, [
    { path: ['other'], line: 2, message: 'unknown key; known here: inner' },
    { path: ['inner', 'wrod'], line: 1, column: 9, message: /did you mean "word"/ },
  ])
  t.same(JSON.stringify(value), '{"inner":{}}')
})

t.test('a block for any keys accepts any key', async (t) => {
  const loose = await fitted(z.looseObject({ a: z.number() }), 'a: 1\nb: {c: 2}')
  t.same(loose.problems, [])
  t.match(loose.value, { a: 1, b: { c: 2 } })
  t.same((await fitted(z.record(z.string(), z.unknown()), 'x: [1]\ny: ')).problems, [])
})

t.test('keys of a later version are reported as that', async (t) => {
  const schema = withLater(z.strictObject({ a: z.number().optional() }), ['breaker'])
  t.match((await fitted(schema.optional(), 'breaker: {}')).problems, [
    { message: /not supported yet/ },
  ])
})

t.test('paths become absolute, defaults too; PEM files are found', async (t) => {
  const schema = z.object({
    data: path().prefault('data'),
    block: z
      .object({ cert: pemFile('certificate file').optional(), dir: path().default('inner') })
      .prefault({}),
  })
  const plain = await fitted(schema, '{}')
  t.match(plain.value, { data: '/folder/data', block: { dir: '/folder/inner' } })
  const { value, files } = await fitted(schema, 'data: x\nblock: {cert: c.pem}')
  t.match(value, { data: '/folder/x', block: { cert: '/folder/c.pem' } })
  t.match(files, [{ path: ['block', 'cert'], file: '/folder/c.pem' }])
})

t.test('a price keeps its text, a secret is marked', async (t) => {
  const schema = z.object({ price: decimal(), keys: z.array(secret()) })
  const { value, secrets } = await fitted(schema, 'price: 0.10\nkeys: [a]')
  t.match(value, { price: '0.10' })
  t.ok(secrets.has('["keys",0]'))
})

t.test('schemas inside transforms, lazies and wrappers are found', async (t) => {
  const block = z.object({ a: z.int() })
  for (const schema of [
    block.transform((x) => x.a),
    z.preprocess((x) => x, block),
    z.lazy(() => block),
    block.nullable().readonly().catch({ a: 1 }),
    block.optional().nonoptional(),
  ]) {
    t.match((await fitted(schema, 'b: 1')).problems, [{ path: ['b'] }])
    t.match((await fitted(schema, 'a: "${EIGHT}"')).value, { a: 8 })
  }
  t.same((await fitted(z.object({ a: z.string().nullable() }), 'a: ')).problems, [])
})
