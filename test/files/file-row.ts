import t from 'tap'
import { rowFields, objectName, parseRow, toFileObject } from '../../src/files/file-row.ts'
import { newId } from '../../src/ids.ts'
import { fileRow } from '../fixtures/file-rows.ts'

const session = newId('sess')
const hashOf = (fields: readonly string[]) => {
  const pairs = fields.flatMap((name, at) => (at % 2 === 0 ? [[name, fields[at + 1] ?? '']] : []))
  return Object.fromEntries(pairs) as Record<string, string>
}

t.test('a row is read back as it was written', async (t) => {
  for (const fields of [
    {},
    { expiresAt: 1_795_200_000 },
    { bytes: 0, filename: '', purpose: '' },
  ]) {
    const row = fileRow({ session, ...fields })
    t.strictSame(parseRow(row.id, hashOf(rowFields(row))), row)
  }
})

t.test('the API shows a row as documented', async (t) => {
  const row = fileRow({ session, bytes: 120_000 })
  t.strictSame(toFileObject(row), {
    id: row.id,
    object: 'file',
    bytes: 120_000,
    created_at: row.createdAt,
    expires_at: null,
    filename: '报告 🎉.pdf',
    purpose: 'user_data',
    status: 'processed',
    session_id: session,
    content_type: 'text/plain; charset=utf-8',
    sha256: 'ab'.repeat(32),
  })
  t.equal(objectName('ref', row.id), `files/ref/${row.id}`)
})

t.test('the remains of an expired row are no file', async (t) => {
  const id = newId('file')
  t.strictSame(parseRow(id, { id, session, expires_at: '5' }), { id, session, isExpired: true })
  t.equal(parseRow(id, { id, session, expires_at: '' }), undefined)
  t.equal(parseRow(id, { id, expires_at: '5' }), undefined)
})

t.test('a row in another format is no row', async (t) => {
  const row = fileRow({ session })
  const good = hashOf(rowFields(row))
  const broken: Record<string, readonly (string | undefined)[]> = {
    id: [undefined, '', newId('file')],
    bytes: [undefined, '', '-1', '1.5', '1e3', 'NaN', '9007199254740993', ' 1'],
    created_at: [undefined, '', 'x', '-1'],
    expires_at: [undefined, 'x', '-1', '0x10'],
    filename: [undefined],
    purpose: [undefined],
    session: [undefined, '', 'x', newId('msg'), `${session}:files`],
    content_type: [undefined, '', 'text', 'text/html\r\nSet-Cookie: a=b', 'a b/c'],
    sha256: [undefined, '', 'ab', 'AB'.repeat(32), 'zz'.repeat(32)],
  }
  for (const [field, values] of Object.entries(broken)) {
    for (const value of values) {
      const { [field]: _gone, ...rest } = good
      const hash = value === undefined ? rest : { ...rest, [field]: value }
      const found = parseRow(row.id, hash)
      t.ok(found === undefined || 'isExpired' in found, `${field}: ${JSON.stringify(value)}`)
    }
  }
  t.equal(parseRow(row.id, {}), undefined)
})
