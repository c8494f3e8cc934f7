// What the gateway makes of file names that clients send.

import t from 'tap'
import { cleanFileName } from '../../../src/files/upload/file-name.ts'

const bytesOf = (name: string) => Buffer.byteLength(name)

t.test('names in ten scripts, and emoji, stay as they are', async (t) => {
  const names = [
    'report.pdf',
    'отчёт.pdf',
    'έκθεση.pdf',
    '报告.pdf',
    '報告書.docx',
    '보고서.pdf',
    'تقرير.pdf',
    'דוח.pdf',
    'रिपोर्ट.pdf',
    'รายงาน.pdf',
    'báo cáo tiếng Việt.pdf',
    '👩🏽‍💻 notes 🏴󠁧󠁢󠁥󠁮󠁧󠁿.txt',
    'می‌خواهم.txt',
    'no extension',
    'a"quote\'s; and = %41.txt',
  ]
  for (const name of names) t.equal(cleanFileName(name), name)
})

t.test('the same name in two Unicode forms is one name', async (t) => {
  t.equal(cleanFileName('re\u0301sume\u0301.pdf'), 'résumé.pdf')
  t.equal(cleanFileName('e\u200e\u0301.txt'), 'é.txt', 'also what a mark has kept apart')
})

t.test('no name leads to another folder', async (t) => {
  const names: Readonly<Record<string, string>> = {
    '../../etc/passwd': 'passwd',
    '/etc/passwd': 'passwd',
    'C:\\Users\\me\\报告.pdf': '报告.pdf',
    '..\\..\\boot.ini': 'boot.ini',
    'a/b\\c.txt': 'c.txt',
    '..%2f..%2fpasswd': '%2f..%2fpasswd',
    '..': 'file',
    '.': 'file',
    '/': 'file',
    'folder/': 'file',
    '.htaccess': 'htaccess',
    '. ./..hidden': 'hidden',
    ' . . x': 'x',
    '..\u200e/.\u202e./x\0': 'x',
  }
  for (const [name, cleaned] of Object.entries(names)) t.equal(cleanFileName(name), cleaned, name)
})

t.test('controls, line ends and marks of direction are removed', async (t) => {
  t.equal(cleanFileName('a\0b.txt\0.png'), 'ab.txt.png')
  t.equal(cleanFileName('a\r\nSet-Cookie: x=1\r\n\r\n<b>.txt'), 'aSet-Cookie: x=1<b>.txt')
  t.equal(cleanFileName('a%0D%0ASet-Cookie%22.txt'), 'aSet-Cookie".txt', 'as browsers write them')
  t.equal(cleanFileName('photo_\u202egpj.exe'), 'photo_gpj.exe')
  t.equal(cleanFileName('\u2066a\u2069\u061c\u200f\u2028\u2029\x7f\x9b\ufeff.txt'), 'a.txt')
})

t.test('a name that is no text becomes text', async (t) => {
  t.equal(cleanFileName('a\ud800b\udc00.txt'), 'a\ufffdb\ufffd.txt')
  t.equal(cleanFileName(undefined), 'file')
  t.equal(cleanFileName(''), 'file')
  t.equal(cleanFileName(' \t\u0000 '), 'file')
})

t.test('a long name is cut at a character and keeps its extension', async (t) => {
  const latin = cleanFileName(`${'x'.repeat(5000)}.pdf`)
  t.equal(latin, `${'x'.repeat(251)}.pdf`)
  const chinese = cleanFileName(`${'报'.repeat(5000)}.pdf`)
  t.equal(chinese, `${'报'.repeat(83)}.pdf`)
  const emoji = cleanFileName(`a${'😀'.repeat(5000)}`)
  t.equal(emoji, `a${'😀'.repeat(63)}`)
  t.ok(emoji.isWellFormed())
  t.equal(cleanFileName('y'.repeat(255)), 'y'.repeat(255), '255 bytes are not too many')
  const dotted = cleanFileName(`a.${'z'.repeat(5000)}`)
  t.equal(bytesOf(dotted), 255, 'a long extension is none')
  t.match(cleanFileName(`${'xy '.repeat(200)}.pdf`), /xy\.pdf$/, 'without a space before it')
})
