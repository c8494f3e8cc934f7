import t from 'tap'
import { randomObject } from '../../fixtures/random-json.ts'
import { seeded } from '../../fixtures/random.ts'
import type { JsonParseOptions } from '../../../src/http/json/parse.ts'
import { JsonParse, maxIds, maxItems } from '../../../src/http/json/parse.ts'
import type { ParsedObject } from '../../../src/http/json/parse.ts'

const mebibyte = 2 ** 20

interface Done extends ParsedObject {
  readonly steps: number
}

function parse(text: string | Buffer): Done {
  const one = new JsonParse(Buffer.from(text))
  for (let steps = 1; ; steps++) {
    const parsed = one.step()
    if (parsed) return { ...parsed, steps }
  }
}

const same = (text: string) =>
  JSON.stringify(parse(text).values) === JSON.stringify(JSON.parse(text))

t.test('values are those of JSON.parse, with the position of each member', async (t) => {
  const random = seeded(7)
  for (let i = 0; i < 2000; i++) {
    const text = randomObject(random, ['model', 'é'])
    const { members } = parse(text)
    const body = Buffer.from(text)
    const isSame = [...members].every(
      ([key, { keyStart, valueStart, valueEnd }]) =>
        body[keyStart] === 0x22 &&
        JSON.stringify(JSON.parse(body.toString('utf8', valueStart, valueEnd))) ===
          JSON.stringify((JSON.parse(text) as Record<string, unknown>)[key]),
    )
    if (!isSame || !same(text)) t.fail(text)
  }
  t.pass('2000 random objects')
})

t.test('numbers and words are those of JSON, and no others', async (t) => {
  const right = [
    '0',
    '-0',
    '7',
    '1e5',
    '-1.5E+7',
    '0.10',
    '123456789012345',
    '12345678901234567890',
  ]
  for (const text of [...right, '1e999', 'true', 'false', 'null']) {
    const { values } = parse(`{"a":${text}}`)
    t.ok(Object.is(values['a'], JSON.parse(text)), text)
  }
  const wrong = ['01', '-', '1.', '.5', '1e', '+1', '0x1', 'nul', 'truee', 'NaN', '', '1 2', '--1']
  for (const text of wrong) {
    t.throws(() => parse(`{"a":${text}}`), { code: 'invalid_json' }, text)
    t.throws(() => parse(`{"a":[${text || ','}]}`), { code: 'invalid_json' }, text)
  }
})

t.test('everything that JSON.parse refuses is refused', async (t) => {
  const cases = [
    '',
    '[]',
    '{',
    '{"a"}',
    '{"a":}',
    '{"a":1,}',
    '{,}',
    '{"a":1 "b":2}',
    '{a:1}',
    '{}{}',
  ]
  cases.push(
    '{"a":[1,]}',
    '{"a":[}',
    '{"a":{"b":1]}',
    '{"a":[1}',
    '{"a":"',
    '{"a":"\\',
    '{"a":"\\x"}',
  )
  cases.push('{"a":"\\u12"}', '{"a":"\n"}', '{"a\n":1}', '{"a":{"b"', '{"a":1}\0', '\ufeff{}')
  for (const text of cases)
    t.throws(() => parse(text), { code: 'invalid_json' }, JSON.stringify(text))
  const cut = Buffer.from('{"a":"é"}').subarray(0, 7)
  t.throws(() => parse(cut), { message: /UTF-8/ })
})

t.test('long strings are read in pieces, and no character is cut in two', async (t) => {
  const random = seeded(1)
  const parts = ['a', 'é', '报', '😀', '\\"', '\\\\', '\\n', '\\u00e9', '\\ud83d\\ude00']
  for (let i = 0; i < 40; i++) {
    const unit = Array.from({ length: 1 + random(5) }, () => parts[random(parts.length)]).join('')
    const text = `{"${'k'.repeat(random(300))}":["${'x'.repeat(random(8))}${unit.repeat(40_000)}"]}`
    if (!same(text)) t.fail(unit)
  }
  const url = `data:image/png;base64,${'A'.repeat(20 * mebibyte)}`
  const { values, steps } = parse(`{"a":"${url}"}`)
  t.ok(values['a'] === url)
  t.ok(steps > 300, `${steps} steps`)
})

t.test('a key named __proto__ is a key like others', async (t) => {
  const { values } = parse('{"__proto__":{"x":1},"a":{"__proto__":{"y":1}}}')
  t.ok(Object.hasOwn(values, '__proto__'))
  t.ok(Object.hasOwn(Object(values['a']), '__proto__'))
  t.equal(Reflect.get(Object(values['a']), 'y'), undefined)
})

t.test('of equal keys below the top the last counts; at the top they are refused', async (t) => {
  t.same(parse('{"a":{"b":1,"b":2}}').values, { a: { b: 2 } })
  t.throws(() => parse('{"a":1,"\\u0061":2}'), { message: /"a" stands twice/ })
})

t.test('values and token ids have limits of their own', async (t) => {
  const list = (entry: string, count: number) => `{"a":[${Array(count).fill(entry).join(',')}]}`
  t.equal(parse(list('7', maxIds)).members.size, 1)
  t.throws(() => parse(list('7', maxIds + 1)), { message: /1000000 whole numbers/ })
  t.equal(parse(list('""', maxItems - 1)).members.size, 1)
  t.throws(() => parse(list('""', maxItems)), { message: /100000 values/ })
  t.throws(() => parse(list('1.5', maxItems)), { message: /100000 values/ })
  t.throws(() => parse(list('{"k":1}', maxItems / 2)), { message: /100000 values/ })
})

t.test('keys and numbers of kilobytes are refused, and depth over 64', async (t) => {
  t.equal(parse(`{"${'k'.repeat(4000)}":1}`).members.size, 1)
  t.throws(() => parse(`{"${'k'.repeat(5000)}":1}`), { message: /key .* longer/ })
  t.throws(() => parse(`{"a":{"${'k'.repeat(mebibyte)}":1}}`), { message: /key .* longer/ })
  t.throws(() => parse(`{"a":${'1'.repeat(5000)}}`), { message: /number .* longer/ })
  const nested = (depth: number) => `{"a":${'['.repeat(depth)}${']'.repeat(depth)}}`
  t.equal(parse(nested(63)).members.size, 1)
  t.throws(() => parse(nested(64)), { message: /64 levels/ })
})

t.test('no step does more than a piece of the work, whatever the body contains', async (t) => {
  const bytes = 4 * mebibyte
  const most = 64 * 1024
  const bodies = {
    space: `{${' '.repeat(bytes)}"a":1}`,
    escapes: `{"a":"${'\\u00e9'.repeat(bytes / 6)}"}`,
    quotes: `{"a":"${'\\"'.repeat(bytes / 2)}"}`,
    text: `{"a":"${'lorem ipsum\\n'.repeat(bytes / 13)}"}`,
    ids: `{"a":[${'1,'.repeat(maxIds - 1)}1]}`,
  }
  for (const [name, text] of Object.entries(bodies)) {
    const { steps } = parse(text)
    t.ok(steps >= text.length / most, `${name}: ${steps} steps`)
  }
})

t.test('of long texts only the beginning is kept, unless more is asked for', (t) => {
  const long = 'é"x'.repeat(100_000)
  const body = Buffer.from(JSON.stringify({ a: [long, 'short'], b: { c: long } }))
  const { values, chars, members } = parsed(body, { keptChars: 1000 })
  const [cut, short] = (values as { a: [string, string] }).a
  t.ok(cut.length >= 1000 && cut.length <= 65_536 && long.startsWith(cut))
  t.equal(short, 'short')
  t.ok(chars < 2 * 65_536 + 10)
  t.same([...members.keys()], ['a', 'b'])
  t.equal(parsed(body).chars, 2 * long.length + 5)
  const broken = Buffer.from(body)
  broken[400_000] = 0x01
  t.throws(() => parsed(broken, { keptChars: 1000 }), { code: 'invalid_json' })
  t.end()
})

function parsed(body: Buffer, options?: JsonParseOptions) {
  const parse = new JsonParse(body, options)
  for (;;) {
    const found = parse.step()
    if (found) return found
  }
}
