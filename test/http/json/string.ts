import t from 'tap'
import { StringReader, parseText } from '../../../src/http/json/string.ts'

const read = (text: string) => {
  const reader = new StringReader(Buffer.from(text))
  reader.begin(0)
  for (let pieces = 1; ; pieces++) {
    const whole = reader.readPiece()
    if (whole) return { ...whole, pieces }
  }
}

t.test('a string ends at its own quote, however long it is', async (t) => {
  for (const text of ['""', '"a"', '"\\\\"', '"\\""', `"${'a\\"é'.repeat(50_000)}"`]) {
    const { value, end } = read(`${text},"b"`)
    t.ok(value === JSON.parse(text))
    t.equal(end, Buffer.byteLength(text))
  }
  t.equal(read(`"${'a'.repeat(640 * 1024)}"`).pieces, 10)
})

t.test('no piece ends inside a character or an escape', async (t) => {
  for (let lead = 0; lead < 8; lead++) {
    for (const unit of ['é', '报', '😀', '\\u00e9', '\\n', '\\ud83d\\ude00']) {
      const text = `"${'x'.repeat(lead)}${unit.repeat(30_000)}"`
      if (read(text).value !== JSON.parse(text)) t.fail(`${lead} ${unit}`)
    }
  }
  t.pass('at all places')
})

t.test('an unfinished or invalid string is refused', async (t) => {
  const cases = [
    '"',
    '"a',
    '"\\',
    '"\\"',
    '"\\u12',
    `"${'a'.repeat(200_000)}`,
    `"${'\\"'.repeat(99_000)}`,
  ]
  for (const text of [...cases, '"\\q"', '"\t"', `"${'a'.repeat(1000)}\n"`]) {
    t.throws(() => read(text), { code: 'invalid_json' }, text.slice(0, 20))
  }
  t.throws(() => parseText('{'), { code: 'invalid_json' })
})

t.test('short plain strings are read at once; a key has a limit', async (t) => {
  const reader = (text: string) => new StringReader(Buffer.from(text))
  t.same(reader('"abc":').readShort(0), { value: 'abc', end: 5 })
  for (const text of ['"é"', '"\\n"', '"\n"', `"${'a'.repeat(300)}"`, '"abc']) {
    t.equal(reader(text).readShort(0), undefined, text.slice(0, 10))
  }
  t.same(reader('"é\\n"').readWhole(0, 100), { value: 'é\n', end: 6 })
  t.throws(() => reader(`"${'a'.repeat(300)}"`).readWhole(0, 200), { message: /longer than 200/ })
})
