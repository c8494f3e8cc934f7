import t from 'tap'
import {
  formatBudget,
  parseAmount,
  parseBudget,
  parseCount,
  parseList,
  parseMoment,
  parsePairs,
  parseSeconds,
} from '../../src/cli/values.ts'

const usage = { name: 'CliError', exitCode: 2 }

t.test('an amount is a whole number, signed or grouped', async (t) => {
  t.equal(parseAmount('1000000'), 1_000_000)
  t.equal(parseAmount('1_000_000'), 1_000_000)
  t.equal(parseAmount('+5'), 5)
  t.equal(parseAmount('-5'), -5)
  t.equal(parseAmount('\u22125'), -5)
  t.equal(parseAmount('9007199254740991'), Number.MAX_SAFE_INTEGER)
  for (const wrong of [
    '',
    '1.5',
    '1,000',
    '1e6',
    '0x10',
    'ten',
    '--5',
    '9007199254740992',
    ' ',
    '5 0',
  ]) {
    t.throws(() => parseAmount(wrong), usage, wrong)
  }
})

t.test('a time has a unit', async (t) => {
  t.strictSame(['30s', '15m', '1h', '90d', '0'].map(parseSeconds), [30, 900, 3600, 7_776_000, 0])
  for (const wrong of ['', '1', '1w', '-1h', '1.5h', 'h'])
    t.throws(() => parseSeconds(wrong), usage, wrong)
})

t.test('a moment is a time from now, or a day', async (t) => {
  t.equal(parseMoment('1h', 1_000_000), 1000 + 3600)
  t.equal(parseMoment('2027-01-31'), Date.UTC(2027, 0, 31) / 1000)
  t.equal(parseMoment('2027-01-31T12:00:00Z'), Date.UTC(2027, 0, 31, 12) / 1000)
  for (const wrong of ['2027-13-01', 'tomorrow', '31.1.2027'])
    t.throws(() => parseMoment(wrong), usage, wrong)
})

t.test('lists are split at commas, pairs at the first equals sign', async (t) => {
  t.strictSame(parseList(['chat, files', 'billing']), ['chat', 'files', 'billing'])
  t.equal(parseList(undefined), undefined)
  t.strictSame(parsePairs(['a=1', 'b=x=y', 'c=']), { a: '1', b: 'x=y', c: '' })
  t.equal(parsePairs(undefined), undefined)
  for (const wrong of ['a', '=1', '']) t.throws(() => parsePairs([wrong]), usage, wrong)
})

t.test('a count is at least 1', async (t) => {
  t.equal(parseCount('limit', '7'), 7)
  t.equal(parseCount('limit', undefined), undefined)
  for (const wrong of ['0', '-1', '1.5', '', 'x']) {
    t.throws(() => parseCount('limit', wrong), { ...usage, message: /--limit/ }, wrong)
  }
})

t.test('a budget is tokens and a window, or none', async (t) => {
  t.strictSame(parseBudget('100_000/month'), { tokens: 100_000, every: 'month' })
  t.strictSame(parseBudget('0/day'), { tokens: 0, every: 'day' })
  t.equal(parseBudget('none'), null)
  t.equal(parseBudget(undefined), undefined)
  for (const wrong of ['', '5', '5/hour', '/day', '5/', '-5/day', '1.5/day', '_/day', '9e9/day'])
    t.throws(() => parseBudget(wrong), usage, wrong)
  t.equal(formatBudget(null), '')
  const budget = { tokens: 100_000, every: 'week', used: 30, renews_at: null } as const
  t.equal(formatBudget(budget), '30 of 100,000 a week')
  t.match(formatBudget({ ...budget, renews_at: 1_800_000_000 }), /a week, until 2027-01-15/)
})
