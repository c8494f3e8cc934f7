import t from 'tap'
import {
  card,
  createTable,
  formatAmount,
  formatChange,
  formatTime,
  table,
} from '../../src/cli/table.ts'

interface Row {
  readonly name: string
  readonly amount: number
}

const columns = [
  { title: 'NAME', cell: ({ name }: Row) => name },
  { title: 'AMOUNT', isNumber: true, cell: ({ amount }: Row) => formatAmount(amount) },
]

t.test('columns are aligned, numbers by their last digit', async (t) => {
  const rows = [
    { name: 'a', amount: 5 },
    { name: 'longer', amount: 1_234_567 },
  ]
  t.equal(table(columns, rows), 'NAME       AMOUNT\na               5\nlonger  1,234,567\n')
  t.equal(table(columns, []), 'NAME  AMOUNT\n')
})

t.test('later pages have no titles, and columns that get wider, never narrower', async (t) => {
  const format = createTable(columns)
  t.equal(format([{ name: 'a', amount: 5 }]), 'NAME  AMOUNT\na          5\n')
  t.equal(format([{ name: 'longer', amount: 1 }]), 'longer       1\n')
  t.equal(format([{ name: 'b', amount: 2 }]), 'b            2\n')
})

t.test('wide characters take two columns, accents none', async (t) => {
  const rows = [
    { name: '日本', amount: 1 },
    { name: 'e\u0301', amount: 2 },
    { name: 'abcd', amount: 3 },
  ]
  t.equal(table(columns, rows), 'NAME  AMOUNT\n日本       1\ne\u0301          2\nabcd       3\n')
})

t.test('no name or note can send control codes to the terminal', async (t) => {
  const hostile = 'a\u001b[2J\r\n\u0007\u009b\u202e'
  for (const text of [table(columns, [{ name: hostile, amount: 1 }]), card({ name: hostile })]) {
    t.notMatch(text, /[^\n\P{Cc}]|\u202e/u)
    t.match(text, /a\ufffd\[2J/)
  }
})

t.test('a card has a line for each field', async (t) => {
  t.equal(card({ id: 'x', 'external id': 'y', note: '' }), 'id           x\nexternal id  y\nnote\n')
})

t.test('amounts are grouped and exact, changes signed, times UTC', async (t) => {
  t.equal(formatAmount(9007199254740991), '9,007,199,254,740,991')
  t.strictSame([0, 999, 1000, -1234].map(formatAmount), ['0', '999', '1,000', '-1,234'])
  t.strictSame([5, -5, 0].map(formatChange), ['+5', '-5', '0'])
  t.equal(formatTime(1_795_200_000), '2026-11-20 18:40:00Z')
  t.strictSame([formatTime(null), formatAmount(null), formatAmount(undefined)], ['-', '-', '-'])
})

t.test('a table of 200,000 rows can be printed, too', async (t) => {
  const rows = Array.from({ length: 200_000 }, (_, i) => i)
  const text = table([{ title: 'N', cell: String }], rows)
  t.equal(
    text.length,
    rows.reduce((sum, row) => sum + String(row).length + 1, 2),
  )
})
