// The text fields of an upload, one by one.

import t from 'tap'
import {
  cleanFileName,
  fieldNames,
  FormFields,
  unknownField,
} from '../../../src/files/upload/upload-fields.ts'
import { sessionId } from '../../fixtures/multipart-server.ts'

const other = sessionId.replace('0197', '0198')

function taken(fields: Readonly<Record<string, string>>, query = '') {
  const collected = new FormFields(new URLSearchParams(query))
  for (const [name, value] of Object.entries(fields)) collected.take(name, value)
  return collected
}

const refused = (code: string, param: string) => ({ name: 'GatewayError', code, param })

t.test('absent fields have their defaults', async (t) => {
  const fields = taken({ session_id: sessionId })
  t.equal(fields.session(), sessionId)
  t.equal(fields.purpose, 'user_data')
  t.equal(fields.expiresAfterS(), null)
  t.equal(fields.sha256, undefined)
})

t.test('given fields count', async (t) => {
  const sum = 'Ab'.repeat(32)
  const fields = taken({ purpose: 'fine-tune', expires_after: '3600', sha256: sum })
  t.equal(fields.purpose, 'fine-tune')
  t.equal(fields.expiresAfterS(), 3600)
  t.equal(fields.sha256, sum.toLowerCase())
})

t.test('the session comes from the form, the query, or equally from both', async (t) => {
  t.equal(taken({}, `session_id=${sessionId}`).session(), sessionId)
  t.equal(taken({ session_id: sessionId }, `session_id=${sessionId}`).session(), sessionId)
  t.throws(
    () => taken({ session_id: other }, `session_id=${sessionId}`),
    refused('invalid_parameter', 'session_id'),
  )
  t.throws(() => taken({}, 'session_id=a&session_id=a'), refused('invalid_parameter', 'session_id'))
})

t.test('without a session the upload is refused, with what to send', async (t) => {
  for (const fields of [taken({}), taken({ session_id: '' }), taken({}, 'session_id=')]) {
    t.throws(() => fields.session(), {
      ...refused('missing_parameter', 'session_id'),
      message: /before the file/,
    })
  }
  t.throws(
    () => taken({ session_id: '../sess' }).session(),
    refused('session_not_found', 'session_id'),
  )
})

t.test('each field at most once, and only known ones', async (t) => {
  for (const name of fieldNames) {
    const fields = taken({})
    fields.take(name, '')
    t.throws(() => fields.take(name, ''), refused('invalid_parameter', name))
  }
  for (const name of ['files', 'Session_id', 'session_id ', '__proto__', 'constructor', '']) {
    t.throws(() => taken({}).take(name, 'x'), refused('unknown_parameter', name))
  }
  t.equal(unknownField('x'.repeat(5000)).param?.length, 100, 'a long name is not sent back whole')
})

t.test('bad values are refused with the name of their field', async (t) => {
  const bad: Readonly<Record<string, readonly string[]>> = {
    purpose: ['User', 'a b', 'x'.repeat(65), 'données', '-'],
    expires_after: ['0', '-1', '1.5', '1e3', '007', 'soon', ' 1', '1234567890'],
    'expires_after[seconds]': ['0', 'x'],
    'expires_after[anchor]': ['last_active_at'],
    sha256: ['ab', 'g'.repeat(64), 'a'.repeat(65)],
  }
  for (const [name, values] of Object.entries(bad)) {
    for (const value of values) {
      t.throws(() => taken({ [name]: value }), refused('invalid_parameter', name), value)
    }
  }
})

t.test('a file expires after one second to ten years', async (t) => {
  t.equal(taken({ expires_after: '1' }).expiresAfterS(), 1)
  t.equal(taken({ expires_after: '315360000' }).expiresAfterS(), 315_360_000)
  const tooLong = taken({ expires_after: '315360001' })
  t.throws(() => tooLong.expiresAfterS(), refused('invalid_parameter', 'expires_after'))
})

t.test("expiry in the form of OpenAI's SDKs", async (t) => {
  const nested = { 'expires_after[anchor]': 'created_at', 'expires_after[seconds]': '60' }
  t.equal(taken(nested).expiresAfterS(), 60)
  t.equal(taken({ 'expires_after[seconds]': '60' }).expiresAfterS(), 60)
  t.throws(
    () => taken({ 'expires_after[anchor]': 'created_at' }).expiresAfterS(),
    refused('missing_parameter', 'expires_after[seconds]'),
  )
  t.throws(
    () => taken({ ...nested, expires_after: '60' }).expiresAfterS(),
    refused('invalid_parameter', 'expires_after'),
  )
})

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
