import { gzipSync } from 'node:zlib'
import t from 'tap'
import { isName } from '../../../src/store/store.ts'
import { newId } from '../../../src/ids.ts'
import { newObject, pack, pathOf, sessionIn, unpack } from '../../../src/sessions/asleep/object.ts'
import type { StoredRow } from '../../../src/sessions/asleep/object.ts'

async function* from(rows: readonly StoredRow[]) {
  yield* rows
}

const name = newObject(newId('sess'))

async function allOf(bytes: Buffer) {
  const rows: StoredRow[] = []
  for await (const row of unpack(name, bytes)) rows.push(row)
  return rows
}

t.test('what is packed comes out as it went in, however long and whatever it says', async (t) => {
  const texts = ['', '{"a":1}', 'line\nline\r\n', '\u2028"\\', '\ufeffé', 'x'.repeat(3_000_000)]
  const many = Array.from({ length: 3000 }, (_, i) => `row ${i}`)
  const rows = [...texts, ...many].map((text, i) => [`msg_${i}`, text] as const)
  const bytes = await pack(name, from(rows))
  t.ok(bytes.length < 100_000, 'it is compressed')
  t.strictSame(await allOf(bytes), rows)
  t.strictSame(await allOf(await pack(name, from([]))), [])
})

t.test('an object that is cut, changed or none of ours is refused', async (t) => {
  const bytes = await pack(name, from([['msg_1', 'one row']]))
  const changed = Buffer.from(bytes)
  changed[bytes.length - 6] = (changed[bytes.length - 6] ?? 0) ^ 1
  for (const bad of [
    bytes.subarray(0, -1),
    bytes.subarray(0, 12),
    Buffer.from('text'),
    Buffer.alloc(0),
    changed,
    await pack(newObject(sessionIn(name)), from([['msg_1', 'one row']])),
    gzipSync(`${JSON.stringify(['msg_1', 'one row'])}\n`),
    gzipSync(''),
  ]) {
    await t.rejects(allOf(bad), bad.toString('hex'))
  }
})

t.test('an object is named after its session, and never as another', async (t) => {
  const session = newId('sess')
  const [one, other] = [newObject(session), newObject(session)]
  t.not(one, other)
  t.equal(sessionIn(one), session)
  t.ok(isName(pathOf('abcdefghijkl', one)))
})
