import t from 'tap'
import { parseRange } from '../../../src/files/download/range.ts'
import { seeded } from '../../fixtures/random.ts'

t.test('each of the three forms of a range is read', async (t) => {
  for (const [header, start, end] of [
    ['bytes=0-0', 0, 0],
    ['bytes=2-5', 2, 5],
    ['bytes=2-', 2, 9],
    ['bytes=-3', 7, 9],
    ['bytes=0-9', 0, 9],
    ['bytes=9-9', 9, 9],
    ['Bytes=2-5', 2, 5],
    ['bytes=2-5,', 2, 5],
    ['bytes= , 2-5 ,', 2, 5],
    ['bytes=002-05', 2, 5],
  ] as const) {
    t.same(parseRange(header, 10), { start, end }, header)
  }
})

t.test('a range that goes beyond the end is shortened', async (t) => {
  const huge = '9'.repeat(400)
  t.same(parseRange('bytes=5-10', 10), { start: 5, end: 9 })
  t.same(parseRange(`bytes=5-${huge}`, 10), { start: 5, end: 9 })
  t.same(parseRange('bytes=-11', 10), { start: 0, end: 9 }, 'a suffix longer than the file')
  t.same(parseRange(`bytes=-${huge}`, 10), { start: 0, end: 9 })
})

t.test('a range without any byte of the file is not satisfiable', async (t) => {
  for (const header of ['bytes=10-', 'bytes=10-20', 'bytes=-0', `bytes=${'9'.repeat(400)}-`]) {
    t.equal(parseRange(header, 10), 'none', header)
  }
  for (const header of ['bytes=0-', 'bytes=0-0', 'bytes=-0']) {
    t.equal(parseRange(header, 0), 'none', `${header} of an empty file`)
  }
  t.equal(parseRange('bytes=-1', 0), 'whole', 'an empty file has a suffix, and it is empty')
})

t.test('anything but a single valid range of bytes counts as absent', async (t) => {
  for (const header of [
    '',
    'bytes',
    'bytes=',
    'bytes=-',
    'bytes=,',
    'bytes=a-b',
    'bytes=1',
    'bytes=1-2-3',
    'bytes=--1',
    'bytes=+1-2',
    'bytes=1.0-2',
    'bytes=0x1-2',
    'bytes=1 - 2',
    'bytes=5-2',
    `bytes=${'9'.repeat(30)}2-${'9'.repeat(30)}1`,
    'bytes=٣-٤',
    'bytes 2-5',
    'bytes =2-5',
    'items=2-5',
    'bytes=0-1,3-4',
    'bytes=0-1, bytes=3-4',
    'bytes=10-,20-',
    'none',
  ]) {
    t.equal(parseRange(header, 10), 'whole', header)
  }
})

t.test('whatever is requested, what is sent is within the file', async (t) => {
  const random = seeded(9110)
  const letters = ['bytes=', '-', ',', ' ', '0', '1', '7', '12', '99', 'x', '=']
  for (let i = 0; i < 50_000; i++) {
    const bytes = random(15)
    const header = Array.from({ length: random(7) }, () => letters[random(letters.length)]).join('')
    const range = parseRange(`bytes=${header}`, bytes)
    if (typeof range === 'string') continue
    const { start, end } = range
    const isWithin = Number.isInteger(start) && Number.isInteger(end) && 0 <= start && start <= end
    if (!isWithin || end >= bytes) t.fail(`${header} of ${bytes}: ${start}-${end}`)
  }
})

t.test('a long header is read quickly', async (t) => {
  const began = process.cpuUsage()
  for (const long of [
    'bytes=' + ' '.repeat(15_000) + 'x',
    'bytes=' + ','.repeat(15_000),
    'bytes=' + '1-2,'.repeat(4000),
  ]) {
    t.equal(parseRange(long, 10), 'whole')
  }
  t.ok(process.cpuUsage(began).user < 200_000, 'µs of CPU, however busy the machine')
})
