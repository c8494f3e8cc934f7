import t from 'tap'
import { calendarOf } from '../../../src/cli/reconcile/calendar.ts'
import { BadLine, FormatError, hasCount, readerOf } from '../../../src/cli/reconcile/rows.ts'

const utc = calendarOf('UTC')
const day = '2026-11-20'
const seven = { day, model: 'm', split: { prompt: 3, completion: 4 }, tokens: 7 }

t.test('CSV: columns in any order, by any of their names, with quotes', async (t) => {
  const read = (titles: string, line: string) => readerOf(titles, utc)(line)
  t.same(read('day,model,prompt_tokens,completion_tokens', `${day},m,3,4`), seven)
  t.same(read('output_tokens, Model ,Input_Tokens,cost,DATE', `4,m,3,0.1,${day}`), seven)
  t.same(read('day,model,tokens', `${day},m,7`), { day, model: 'm', tokens: 7 })
  t.same(
    read('day,model,prompt,completion,tokens', `${day},m,3,,7`),
    { day, model: 'm', tokens: 7 },
    'an embedding has no completion',
  )
  t.same(read('"day","model","tokens"', `"${day}","a, ""b""",7`).model, 'a, "b"')
})

t.test('JSON lines: fields that are absent or null count as none', async (t) => {
  const read = (value: object) => readerOf('{', utc)(JSON.stringify(value))
  t.same(read({ day, model: 'm', prompt_tokens: 3, completion_tokens: 4 }), seven)
  t.same(read({ day, model: 'm', input_tokens: '3', output_tokens: 4, prompt: null }), seven)
  const all = { total_tokens: 7, completion_tokens: null, prompt_tokens: 7 }
  t.same(read({ day, model: 'm', ...all }), { day, model: 'm', tokens: 7 })
})

t.test('a time is a day of the zone', async (t) => {
  const berlin = calendarOf('Europe/Berlin')
  const dayOf = (time: unknown) =>
    readerOf('{', berlin)(JSON.stringify({ time, model: 'm', tokens: 1 })).day
  for (const time of [
    '2026-11-20T23:30:00Z',
    '2026-11-20 23:30:00.123+0000',
    '2026-11-21T04:30:00+05:00',
    1795217400,
    '1795217400',
    1795217400.5,
  ]) {
    t.equal(dayOf(time), '2026-11-21', String(time))
  }
  t.equal(dayOf('2026-11-20'), '2026-11-20', 'a day stays one')
})

t.test('what is no count says why', async (t) => {
  const csv = readerOf('day,model,prompt_tokens,completion_tokens,tokens', utc)
  const json = readerOf('{', utc)
  const line = (fields: object) => JSON.stringify({ day, model: 'm', tokens: 1, ...fields })
  const cases: readonly (readonly [() => unknown, RegExp])[] = [
    [() => csv(`${day},m,3`), /3 columns, and there are 5 titles/],
    [() => csv(`${day},"m,3,4,7`), /quotes/],
    [() => csv(`${day},"m"x,3,4,7`), /quotes/],
    [() => csv(`${day},m,3,,`), /neither prompt_tokens/],
    [() => csv(`${day},,3,4,`), /no model/],
    [() => csv(`2026-02-30,m,3,4,`), /"2026-02-30" is no day/],
    [() => csv(`2026-11-20T10:00:00,m,3,4,`), /with its zone/],
    [() => csv(`2026-02-30T10:00:00Z,m,3,4,`), /is no day/],
    [() => csv(`2026-11-20T99:00:00Z,m,3,4,`), /is no day/],
    [() => csv(`${day},m,-3,4,`), /"-3" is no number of tokens/],
    [() => csv(`${day},m,1e3,4,`), /no number/],
    [() => csv(`${day},m,3.5,4,`), /no number/],
    [() => csv(`${day},m,99999999999999999,4,`), /no number/],
    [() => json('{"day"'), /no JSON object/],
    [() => json('7'), /no JSON object/],
    [() => json(line({ day: undefined })), /nothing is no day/],
    [() => json(line({ tokens: 1.5 })), /1.5 is no number/],
    [() => json(line({ tokens: -1 })), /-1 is no number/],
    [() => json(line({ tokens: true })), /true is no number/],
    [() => json(line({ model: 7 })), /no model/],
    [() => json(line({ model: 'x'.repeat(201) })), /more than 200/],
  ]
  for (const [read, message] of cases) t.throws(read, new BadLine(), `${message}`)
  for (const [read, message] of cases) t.throws(read, { message })
})

t.test('a first line that is neither titles nor an object ends the reading', async (t) => {
  const wrong = [
    '[{"day":1}]',
    'day,model,prompt_tokens',
    'hello',
    'model,tokens',
    'day;model;tokens',
  ]
  for (const line of wrong) t.throws(() => readerOf(line, utc), new FormatError(), line)
  t.throws(() => readerOf('[', utc), { message: /one JSON object a line/ })
  t.throws(() => readerOf('a,b', utc), { message: /titles of the columns/ })
  t.equal(hasCount(' {"day":1}'), true)
  t.equal(hasCount('day,model'), false)
})
