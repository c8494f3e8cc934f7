// On a real Redis and a real folder, because the book and the store decide who has which file.

import { hash } from 'node:crypto'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { kindOf } from '../../src/files/file-reference.ts'
import type { FileReference } from '../../src/files/file-reference.ts'
import { dropImages, keepImages, loadWanted, readNamed } from '../../src/files/message-files.ts'
import { objectName } from '../../src/files/file-row.ts'
import type { FileRow } from '../../src/files/file-row.ts'
import { FileBook } from '../../src/files/files.ts'
import { Shelf } from '../../src/files/shelf.ts'
import { GatewayError } from '../../src/errors.ts'
import { newId } from '../../src/ids.ts'
import { diskStore } from '../../src/store/disk.ts'
import { addSession, openFiles } from '../fixtures/file-rows.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

const { signal } = new AbortController()

async function open(t: Test, quotaBytes = 1_000_000) {
  const { ref, session, redis, parts } = await openFiles(t)
  const store = diskStore(join(await tempDir(t), 'store'))
  const book = new FileBook({ ...parts, store })
  const shelf = new Shelf(book, store)
  const keeping = { ref, session, quotaBytes, signal }
  const keep = async (text: string, more: Partial<FileRow> = {}) => {
    const content = Buffer.from(text)
    const sha256 = hash('sha256', content)
    const file = { id: newId('file'), filename: 'a.txt', contentType: 'text/plain', sha256 }
    return await shelf.keep(content, { ...keeping, ...file, ...more })
  }
  const named = (...ids: string[]) => ({
    session,
    named: new Map(ids.map((id, i) => [id, `content[${i}]`])),
  })
  return { book, ref, session, redis, store, shelf, keeping, keep, named }
}

const reference = ({ id, bytes, contentType, filename }: FileRow): FileReference => ({
  file_id: id,
  kind: kindOf(contentType),
  bytes,
  content_type: contentType,
  filename,
})

t.test('a named file is found; a missing one is reported by its path', async (t) => {
  const { shelf, ref, redis, keep, named } = await open(t)
  const [one, two] = [await keep('one'), await keep('two')]
  const rows = await readNamed(shelf, ref, named(one.id, two.id))
  t.strictSame([...rows.values()], [one, two])
  const other = await keep('x', { session: await addSession(redis, ref) })
  for (const id of [newId('file'), 'file_1', 'x'.repeat(256), other.id]) {
    const missing = { code: 'file_not_found', param: 'content[1]' }
    await t.rejects(readNamed(shelf, ref, named(one.id, id)), missing, id)
  }
  t.match(await readNamed(shelf, 'stranger0000', named(one.id)).catch(String), /no file/)
})

t.test('an expired file is gone, swept or not', async (t) => {
  const { shelf, book, ref, session, keep, named } = await open(t)
  const past = { ...(await keep('old')), id: newId('file'), expiresAt: 1 }
  await book.begin(ref, { id: past.id, session })
  await book.commit(ref, past, { quotaBytes: 1e9 })
  const expired = { code: 'file_expired', status: 410, param: 'content[0]' }
  await t.rejects(readNamed(shelf, ref, named(past.id)), expired)
})

t.test('each content is loaded once, without earlier files that are gone', async (t) => {
  const { shelf, book, ref, store, keep } = await open(t)
  const rows = await Promise.all(['a', 'bb', 'ccc', 'dddd', 'e', 'f'].map((text) => keep(text)))
  const [first, gone, lost, wrong] = rows
  if (!first || !gone || !lost || !wrong) throw new Error('kept')
  await book.remove(ref, gone.id)
  // As if the store could not delete it yet.
  await store.put(objectName(ref, gone.id), Buffer.from('bb'))
  await store.remove(objectName(ref, lost.id))
  const older = rows.map((row) => reference(row === wrong ? { ...row, bytes: 9 } : row))
  const loads: string[] = []
  const watched = {
    book,
    load: (of: string, id: string) => {
      loads.push(id)
      return shelf.load(of, id)
    },
  }
  const wanted = { fresh: [reference(first)], older: [...older, ...older] }
  const contents = await loadWanted(watched, ref, { ...wanted, signal })
  t.strictSame([...contents.values()].map(String).toSorted(), ['a', 'e', 'f'])
  t.equal(new Set(loads).size, loads.length, 'once')
  for (const row of [gone, lost, { ...wrong, bytes: 9 }]) {
    const fresh = { fresh: [reference(row)], older: [] }
    await t.rejects(loadWanted(shelf, ref, { ...fresh, signal }), { code: 'file_not_found' })
  }
})

t.test('at most four at a time; a failure is reported when all have ended', async (t) => {
  const { shelf, ref, keep } = await open(t)
  const rows = await Promise.all(Array.from({ length: 9 }, (_, i) => keep(`file ${i}`)))
  let running = 0
  let most = 0
  let isFailing = false
  const counting = {
    book: shelf.book,
    async load(of: string, id: string) {
      most = Math.max(most, ++running)
      try {
        if (isFailing && id === rows[1]?.id) throw new GatewayError('storage_unavailable')
        return await shelf.load(of, id)
      } finally {
        running--
      }
    },
  }
  const wanted = { fresh: [], older: rows.map(reference) }
  t.equal((await loadWanted(counting, ref, { ...wanted, signal })).size, 9)
  t.equal(most, 4)
  isFailing = true
  await t.rejects(loadWanted(counting, ref, { ...wanted, signal }), { code: 'storage_unavailable' })
  t.equal(running, 0)
})

const image = (text: string) => ({
  id: newId('file'),
  filename: 'image-1.png',
  contentType: 'image/png',
  base64: Buffer.from(text).toString('base64'),
})

t.test('images become files of the session, and can be dropped', async (t) => {
  const { shelf, book, ref, session, store, keeping } = await open(t)
  const images = [image('one'), image('two')]
  const contents = await keepImages(shelf, images, keeping)
  for (const { id, base64, ...rest } of images) {
    t.equal(contents.get(id)?.toString('base64'), base64)
    t.match(await book.read(ref, id), { ...rest, session, bytes: 3, expiresAt: null })
    t.equal(String(await shelf.load(ref, id)), id === images[0]?.id ? 'one' : 'two')
  }
  await dropImages(shelf, ref, [...images, { id: newId('file') }])
  for (const { id } of images) await t.rejects(book.read(ref, id), { code: 'file_not_found' })
  t.strictSame(await store.list('files/'), [])
})

t.test('if the quota ends in the middle, the kept files can be dropped', async (t) => {
  const { shelf, ref, store, redis, keeping } = await open(t, 10)
  const images = ['12345', '67890', 'x'].map(image)
  await t.rejects(keepImages(shelf, images, keeping), { code: 'storage_quota_exceeded' })
  await dropImages(shelf, ref, images)
  t.strictSame(await store.list(''), [])
  const { used = '0', reserved = '0' } = await redis.hgetall(`{${ref}}:storage`)
  t.strictSame([used, reserved], ['0', '0'])
})
