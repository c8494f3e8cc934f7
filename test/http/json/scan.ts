import t from 'tap'
import type { Test } from 'tap'
import { randomObject } from '../../fixtures/random-json.ts'
import { seeded } from '../../fixtures/random.ts'
import { parseAhead, scanJson } from '../../../src/http/json/scan.ts'

const own = new Set(['model', 'messages', 'max_tokens', 'stream', 'stream_options', 'n'])
const scan = (text: string) => scanJson(Buffer.from(text), own)
/** Long enough that the body is not parsed at once. */
const padding = `,"pad":"${'x'.repeat(1024 * 1024)}"`

function refused(t: Test, text: string | Buffer, message: RegExp | undefined, name: string): void {
  const expected = message ? { code: 'invalid_json', message } : { code: 'invalid_json' }
  t.throws(() => scanJson(Buffer.from(text), own), expected, name)
}

t.test('members are found at their position, and read as JSON.parse reads them', async (t) => {
  const random = seeded(1)
  for (let i = 0; i < 2000; i++) {
    const text = randomObject(random, [...own, 'temperature', 'é'])
    const parsed = JSON.parse(text)
    const body = Buffer.from(text)
    const { members, value, text: textOf } = scanJson(body, own)
    const keys = [...members.keys()]
    const same =
      JSON.stringify(keys) === JSON.stringify(textKeys(parsed, keys)) &&
      keys.every((key) => JSON.stringify(value(key)) === JSON.stringify(parsed[key])) &&
      keys.every(
        (key) => JSON.stringify(JSON.parse(textOf(key) ?? '')) === JSON.stringify(parsed[key]),
      ) &&
      keys.every((key) => body[members.get(key)?.keyStart ?? 0] === 0x22)
    if (!same) t.fail(text)
  }
  t.pass('2000 random objects')
})

/** All keys of the parsed object, in the order of the scan. */
function textKeys(parsed: object, order: readonly string[]): readonly string[] {
  return Object.keys(parsed).toSorted((a, b) => order.indexOf(a) - order.indexOf(b))
}

t.test('numbers are kept as they were written', async (t) => {
  const { text } = scan('{"a":12345678901234567890,"b":1e308,"c":-0.10}')
  t.equal(text('a'), '12345678901234567890')
  t.equal(text('b'), '1e308')
  t.equal(text('c'), '-0.10')
  t.equal(text('d'), undefined)
})

t.test('an absent member is undefined, whatever objects inherit', async (t) => {
  const { value } = scan('{"a":null,"__proto__":{"x":1}}')
  t.equal(value('a'), null)
  t.equal(value('b'), undefined)
  t.equal(value('constructor'), undefined)
  t.same(value('__proto__'), { x: 1 })
})

t.test('a key that comes twice is refused, escaped or not', async (t) => {
  refused(t, '{"a":1,"a":1}', /"a" stands twice/, 'plain')
  refused(t, '{"a":1,"\\u0061":1}', /stands twice/, 'escaped')
  refused(t, '{"model":"a","model":"b"}', /"model" stands twice/, 'own')
  refused(t, `{"a":1${padding},"a":1}`, /stands twice/, 'in a large body')
  scan('{"a":1,"A":2,"b":{"a":1,"a":2}}')
})

t.test("a key that only looks like one of the gateway's is refused", async (t) => {
  const keys = [
    'Model',
    'MAX_TOKENS',
    'mode\\u006c',
    'Mode\\u006c',
    'stream\\u005foptions',
    'me\u017f\u017fages',
    'max_to\u212aens',
    'N',
  ]
  for (const key of keys) refused(t, `{"${key}":1}`, /spelt almost like/, key)
  scan('{"modell":1,"mode":1,"max-tokens":1,"nn":1,"Temperature":1,"b":{"Model":1}}')
})

t.test('only a single whole object in UTF-8 is accepted', async (t) => {
  const cases: Record<string, string | Buffer> = {
    empty: '',
    space: '  ',
    array: '[]',
    string: '"a"',
    number: '1',
    'a byte order mark': '\ufeff{}',
    'two objects': '{}{}',
    'something behind': '{"a":1} x',
    'a NUL behind': '{}\0',
    unclosed: '{"a":1',
    'a comma too many': '{"a":1,}',
    'a comma first': '{,"a":1}',
    'no comma': '{"a":1 "b":2}',
    'no colon': '{"a" 1}',
    'no value': '{"a":}',
    'no quotes': '{a:1}',
    'single quotes': "{'a':1}",
    'a comment': '{"a":1/*b*/}',
    'a bad escape in a key': '{"\\x":1}',
    'a word': '{"a":nul}',
    'a number': '{"a":01}',
    'within a value': '{"a":[1 2]}',
    'a control character': '{"a":"\n"}',
    'invalid UTF-8': Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]),
    'a cut character': Buffer.from('{"a":"é"}').subarray(0, 7),
    UTF16: Buffer.from('{}', 'utf16le'),
  }
  for (const [name, text] of Object.entries(cases)) refused(t, text, undefined, name)
  t.same([...scan(' { } ').members], [])
})

t.test('depth is bounded at 64, the body included', async (t) => {
  const nested = (depth: number) => `{"a":${'['.repeat(depth)}${']'.repeat(depth)}}`
  scan(nested(63))
  refused(t, nested(64), /64 levels/, '65 levels')
  refused(t, '{"a":'.repeat(2_000_000), /64 levels/, 'ten megabytes of levels')
})

t.test('a large body is read like a small one, and checked as strictly', async (t) => {
  const large = scan(`{"model":"m","messages":[{"content":"é"}]${padding},"n":2}`)
  t.equal(large.value('model'), 'm')
  t.same(large.value('messages'), [{ content: 'é' }])
  t.equal(large.value('n'), 2)
  t.equal(large.text('n'), '2')
  t.equal(large.value('constructor'), undefined)
  refused(t, `{"a":[1}${padding}}`, undefined, 'brackets')
  refused(t, `{"Model":"b"${padding}}`, /spelt almost like/, 'look-alikes')
  refused(t, `{"mode\\u006c":"b"${padding}}`, /spelt almost like/, 'escaped ones')
  refused(t, `{"a":1${padding}`, undefined, 'no end')
  refused(t, `{"model":nul${padding}}`, undefined, 'a word')
})

t.test('a body has at most 256 members, large or small', async (t) => {
  const members = (count: number) => Array.from({ length: count }, (_, i) => `"a${i}":1`).join(',')
  t.equal(scan(`{${members(256)}}`).members.size, 256)
  refused(t, `{${members(257)}}`, /more than 256 members/, 'small')
  t.equal(scan(`{${members(255)}${padding}}`).members.size, 256)
  refused(t, `{${members(256)}${padding}}`, /more than 256 members/, 'large')
})

t.test('keys are counted as written, in large bodies and in small ones', async (t) => {
  const values = '"a":{"k":1,"k":[{"x":"k"}]},"b":[1,{}],"c":"\\"k\\":1"'
  for (const text of [`{${values}}`, `{${values}${padding}}`]) {
    const { members } = scan(text)
    t.same([members.get('a')?.keys, members.get('b')?.keys, members.get('c')?.keys], [3, 0, 0])
  }
})

t.test('a body that was parsed before is not parsed again', async (t) => {
  const body = Buffer.from(`{"model":"m","a":{}${padding}}`)
  t.not(scanJson(body, own).value('a'), scanJson(body, own).value('a'))
  await parseAhead(body, { ref: 'a' })
  t.equal(scanJson(body, own).value('a'), scanJson(body, own).value('a'), 'the same object')
  const broken = Buffer.from(`{"model":"m"${padding}`)
  await t.rejects(parseAhead(broken, { ref: 'a' }), { code: 'invalid_json' })
  t.equal(await parseAhead(Buffer.from('{'), { ref: 'a' }), 0, 'a small one is left to scanJson')
  const many = Buffer.from(`{"a":[${'[],'.repeat(5000)}[]]}`)
  const bytes = await parseAhead(many, { ref: 'a' })
  t.ok(bytes > 5000 * 50, 'small values take more than their text')
})
