import { Readable } from 'node:stream'
import t from 'tap'
import { linesOf, maxLineChars } from '../../../src/cli/reconcile/lines.ts'

const read = async (pieces: AsyncIterable<string>) =>
  (await Readable.from(linesOf(pieces)).toArray()).flat() as readonly string[]
const readText = (...pieces: readonly string[]) => read(Readable.from(pieces))

t.test('lines come whole, however the text is cut', async (t) => {
  const text = '\ufeffa,b\r\n\n1,2\n3,4'
  const expected = ['a,b', '', '1,2', '3,4']
  t.same(await readText(text), expected)
  t.same(await readText(...text), expected)
  t.same(await readText(), [])
  t.same(await readText('a\n'), ['a'])
})

t.test('a line without an end is not kept, and ends the reading', async (t) => {
  let count = 0
  async function* endless() {
    for (; count < 1000; count++) yield 'x'.repeat(1024)
  }
  const [line = ''] = await read(endless())
  t.ok(line.length > maxLineChars && line.length <= maxLineChars + 1024)
  t.ok(count < 100)
})
