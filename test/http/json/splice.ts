import t from 'tap'
import { randomObject, randomValue } from '../../fixtures/random-json.ts'
import { seeded } from '../../fixtures/random.ts'
import { scanJson } from '../../../src/http/json/scan.ts'
import { spliceBody } from '../../../src/http/json/splice.ts'

const keys = ['model', 'max_tokens', 'stream_options', 'n', 'é']
const own = new Set(keys)

function splice(text: string, edits: Readonly<Record<string, string | undefined>>): string {
  const body = Buffer.from(text)
  return Buffer.concat(
    spliceBody(body, scanJson(body, own), new Map(Object.entries(edits))),
  ).toString()
}

t.test('splicing and then parsing gives the same as parsing and then editing', async (t) => {
  const random = seeded(2)
  for (let i = 0; i < 5000; i++) {
    const text = randomObject(random, keys)
    const expected = JSON.parse(text)
    const edits: Record<string, string | undefined> = {}
    for (let count = random(4); count > 0; count--) {
      const key = keys[random(keys.length)] ?? ''
      const value = random(3) ? randomValue(random, 2) : undefined
      edits[key] = value
    }
    for (const [key, value] of Object.entries(edits)) {
      if (value === undefined) delete expected[key]
      else expected[key] = JSON.parse(value)
    }
    const result = splice(text, edits)
    if (JSON.stringify(JSON.parse(result)) !== JSON.stringify(expected)) {
      t.fail('differs', { text, edits, result })
    }
  }
  t.pass('5000 random objects')
})

t.test('every byte that is not edited stays', async (t) => {
  const text =
    ' {\n "model" : "a",\t"big":12345678901234567890, "x":[1e308 , "\\u00e9é"],"n":\r\n3 } \n'
  t.equal(splice(text, {}), text)
  t.equal(splice(text, { model: '"b"' }), text.replace('"a"', '"b"'))
  t.equal(splice(text, { n: '1' }), text.replace('\n3', '\n1'))
  t.equal(splice(text, { max_tokens: '100' }), text.replace('3 }', '3,"max_tokens":100 }'))
  t.equal(splice(text, { n: undefined }), text.replace(',"n":\r\n3', ''))
  t.equal(splice(text, { model: undefined }), text.replace('"model" : "a",\t', ''))
  const both = splice(text, { n: undefined, max_tokens: '1', model: '"报"' })
  t.equal(both, text.replace('"a"', '"报"').replace('"n":\r\n3', '"max_tokens":1'))
})

t.test('an object may become empty and full again', async (t) => {
  t.equal(splice('{ }', { n: '1' }), '{"n":1 }')
  t.equal(splice('{"n":1}', { n: undefined }), '{}')
  t.equal(splice('{"n":1,"é":2}', { n: undefined, é: undefined }), '{}')
  t.equal(splice('{"n":1}', { n: undefined, é: '2' }), '{"é":2}')
  t.equal(splice('{"n":1,"x":2,"é":3}', { n: undefined, é: undefined }), '{"x":2}')
})
