// CSV as RFC 4180 has it, read back by another program; and an answer that follows its reader.

import { Readable } from 'node:stream'
import t from 'tap'
import type { Test } from 'tap'
import { csvAnswer, csvLines, defused } from '../../src/http/csv.ts'
import type { Cell, CsvColumn } from '../../src/http/csv.ts'
import { asGatewayError } from '../../src/errors.ts'
import { sendAnswer, sendError } from '../../src/http/reply.ts'
import { parseCsv } from '../fixtures/csv.ts'
import { startListener } from '../fixtures/http-listener.ts'
import { until } from '../fixtures/until.ts'

const columns: readonly CsvColumn<readonly Cell[]>[] = ['a', 'b'].map((title, i) => ({
  title,
  cell: (row) => row[i],
}))

async function* piecesOf(...pieces: readonly (readonly (readonly Cell[])[])[]) {
  yield* pieces
}

async function textOf(lines: AsyncIterable<string>): Promise<string> {
  return (await Readable.from(lines).toArray()).join('')
}

t.test('titles first, CRLF after each line, a cell without a value is empty', async (t) => {
  const pieces = piecesOf(
    [['x', 1]],
    [],
    [
      [undefined, -2.5],
      [true, 0],
    ],
  )
  t.equal(await textOf(csvLines(columns, pieces)), 'a,b\r\nx,1\r\n,-2.5\r\ntrue,0\r\n')
  t.equal(await textOf(csvLines(columns, piecesOf())), 'a,b\r\n')
})

t.test('any text comes back from Python, and none is a formula', async (t) => {
  const texts = [
    'plain',
    'a,b',
    'a"b""',
    'line\r\nline',
    ' spaces ',
    'Grüße 🦜',
    '\u2028',
    '=1+1',
    '+1',
    '-1',
    '@SUM(A1)',
    '\t=1',
    '\r=1',
    '\n=1',
    '＝1',
    "'quoted",
    "'=1",
    "''=1",
    '"=1"',
  ]
  const rows = texts.map((text) => [text, -1] as const)
  const [, ...back] = await parseCsv(await textOf(csvLines(columns, piecesOf(rows))))
  for (const [i, [cell = '', number]] of back.entries()) {
    t.notMatch(cell, /^[=+\-@\t\r\n＝＋－＠]/, cell)
    t.equal(cell.replace(/^'(?='*[=+\-@\t\r\n＝＋－＠])/, ''), texts[i], 'one apostrophe less')
    t.equal(number, '-1', 'a number stays a number')
  }
  t.equal(back.length, texts.length)
  t.equal(defused('a=1'), 'a=1')
})

async function serve(t: Test, lines: AsyncIterable<string>) {
  const ended: unknown[] = []
  const listener = await startListener(t, async (_req, res) => {
    const x = { id: 'req_1', replyHeaders: {} }
    const answer = csvAnswer('books', lines)
    try {
      await sendAnswer(res, x, { answer, limits: { readerStallMs: 60_000 } })
      ended.push('sent')
    } catch (error) {
      ended.push(error)
      sendError(res, x, asGatewayError(error))
    }
  })
  return { url: `http://127.0.0.1:${listener.port}/`, ended }
}

t.test('it says what it is, and is made only as far as its reader takes it', async (t) => {
  let [made, isOver] = [0, false]
  async function* endless() {
    try {
      for (;;) {
        made++
        yield 'x'.repeat(1000)
      }
    } finally {
      isOver = true
    }
  }
  const { url } = await serve(t, endless())
  const left = new AbortController()
  const answer = await fetch(url, { signal: left.signal })
  t.equal(answer.headers.get('content-type'), 'text/csv; charset=utf-8; header=present')
  t.equal(answer.headers.get('content-disposition'), 'attachment; filename="books.csv"')
  const reader = answer.body?.getReader()
  await reader?.read()
  // It stops when the buffers of both sides are full.
  let before = -1
  await until(() => {
    const isStill = before === made
    before = made
    return isStill
  })
  t.ok(made < 20_000, `${made} KB were made for a reader that has stopped`)
  t.notOk(isOver)
  left.abort()
  await until(() => isOver)
})

t.test('what breaks in the middle does not look whole', async (t) => {
  async function* broken(line: string) {
    yield line
    yield line
    throw new Error('lost')
  }
  const begun = await serve(t, broken('x'.repeat(500_000)))
  const answer = await fetch(begun.url)
  t.equal(answer.status, 200)
  await t.rejects(answer.text())
  t.match(begun.ended, [{ code: 'storage_unavailable' }])
  const short = await serve(t, broken('a\r\n'))
  t.equal((await fetch(short.url)).status, 503, 'nothing was sent yet')
})
