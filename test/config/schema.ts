import t from 'tap'
import { bytes, decimal, duration, kinds, pemFile, secret } from '../../src/config/schema.ts'

t.test('a duration is a whole number with its unit, in ms', async (t) => {
  const good = { '500ms': 500, '30s': 30_000, '15m': 900_000, '24h': 86_400_000 }
  for (const [text, ms] of Object.entries(good)) t.equal(duration().parse(text), ms)
  for (const text of [
    '30',
    '1.5s',
    '-1s',
    '1 s',
    '01s',
    '1d',
    's',
    '',
    '1m30s',
    '0s',
    '25000000h',
  ]) {
    t.notOk(duration().safeParse(text).success, text)
  }
  t.equal(duration({ min: 0 }).parse('0s'), 0)
})

t.test('the longest duration still fits a timer', async (t) => {
  t.ok(duration().safeParse(`${2 ** 31 - 1}ms`).success)
  t.notOk(duration().safeParse(`${2 ** 31}ms`).success)
})

t.test('a duration that is no timer may be longer', async (t) => {
  const year = duration({ max: 8760 * 3_600_000 })
  t.equal(year.parse('8760h'), 8760 * 3_600_000)
  const issue = year.safeParse('8761h').error?.issues[0]
  t.match(issue?.message, 'is too long; at most 8760h')
})

t.test('a size is bytes, or a whole number with its unit', async (t) => {
  const good = { '1B': 1, '64KiB': 65_536, '100MiB': 104_857_600, '2TiB': 2 ** 41 }
  for (const [text, size] of Object.entries(good)) t.equal(bytes().parse(text), size)
  t.equal(bytes().parse(4096), 4096)
  for (const wrong of ['1MB', '1', '1.5MiB', '9999999TiB', 1.5, -1, 0, '0B', true, null]) {
    t.notOk(bytes().safeParse(wrong).success, String(wrong))
  }
})

t.test('decimal text becomes integer micro-units without a double in between', async (t) => {
  t.equal(decimal().parse('0.07'), 70_000n)
  t.equal(decimal().parse('123456789.123456'), 123_456_789_123_456n)
  t.equal(decimal().parse('00012.5000000000'), 12_500_000n)
  for (const text of [
    '',
    '.',
    '-1',
    '+1',
    '1e3',
    '0x1',
    '1,5',
    '0.0000001',
    'NaN',
    '٣',
    '1'.repeat(21),
  ]) {
    t.notOk(decimal().safeParse(text).success, text)
  }
  t.equal(decimal().parse(0.07), 70_000n)
  t.notOk(decimal().safeParse(1e-7).success)
})

t.test('10,000 prices are exact to the digit', async (t) => {
  for (let i = 0; i < 10_000; i++) {
    const micros = BigInt((i * 7_919_993) % 999_999_999)
    const text = `${micros / 1_000_000n}.${String(micros % 1_000_000n).padStart(6, '0')}`
    if (decimal().parse(text) !== micros) t.fail(text)
  }
})

t.test('a schema that is made from another keeps its kind', async (t) => {
  t.equal(kinds.get(secret().describe('A key.'))?.kind, 'secret')
  t.equal(kinds.get(pemFile('certificate file').describe('A file.'))?.kind, 'certificate file')
})
