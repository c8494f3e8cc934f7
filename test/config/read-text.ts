import { join } from 'node:path'
import t from 'tap'
import { readText, whyUnreadable } from '../../src/config/read-text.ts'

t.test('a text, or why there is none', async (t) => {
  const folder = t.testdir({ text: 'a text\n', sub: {}, binary: Buffer.from([0xff, 0xfe]) })
  const read = (name: string) => readText(join(folder, name))
  t.strictSame(await read('text'), { text: 'a text\n' })
  t.strictSame(await read('none'), { fault: 'there is no such file' })
  t.strictSame(await read('sub'), { fault: 'it is a folder' })
  t.strictSame(await read('binary'), { fault: 'it is not UTF-8 text' })
  t.equal(whyUnreadable(Object.assign(new Error('x'), { code: 'EIO' })), 'EIO')
})
