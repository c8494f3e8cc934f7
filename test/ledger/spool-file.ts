// The file of a spool: it stays small, and is whole whatever happens.

import { open, readFile, readdir, rename, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { SpoolFile } from '../../src/ledger/spool-file.ts'
import { tempDir } from '../fixtures/temp-dir.ts'
import { until } from '../fixtures/until.ts'

t.test('a process whose file was taken continues in a new one', async (t) => {
  const dir = await tempDir(t)
  const file = await SpoolFile.create(join(dir, 'own'))
  await file.write('a', '"a"')
  await rename(file.path, join(dir, 'taken'))
  await file.touch()
  await file.write('b', '"b"')
  t.equal(await readFile(file.path, 'utf8'), '"a"\n"b"\n')
  await file.close()
})

t.test('it does not grow with finished entries, and is removed without any', async (t) => {
  const dir = await tempDir(t)
  const file = await SpoolFile.create(join(dir, 'own'))
  const line = JSON.stringify('x'.repeat(1000))
  for (let i = 0; i < 30; i++) {
    await Promise.all(Array.from({ length: 200 }, (_, k) => file.write(`${i}-${k}`, line)))
    for (let k = 0; k < 200; k++) file.remove(`${i}-${k}`)
  }
  await file.write('last', line)
  t.equal(file.size, 1)
  t.ok((await readFile(file.path)).length < 5 * 1024 * 1024)
  file.remove('last')
  await until(async () => (await readFile(file.path, 'utf8')) === '')
  await file.close()
  t.same(await readdir(dir), [])
})

t.test('a write that fails is reported to whoever waits for it', async (t) => {
  const file = await SpoolFile.create(join(await tempDir(t), 'own'))
  await file.write('a', '"a"')
  await file.close()
  await t.rejects(file.write('b', '"b"'))
})

t.test('half a line that a full disk left damages no other', async (t) => {
  const path = join(await tempDir(t), 'own')
  const handle = await open(path, 'ax')
  const append = handle.appendFile.bind(handle)
  const file = new SpoolFile(path, handle)
  await file.write('a', '"a"')
  handle.appendFile = async (text) => {
    await append(String(text).slice(0, 2))
    throw new Error('ENOSPC')
  }
  await t.rejects(file.write('b', '"b"'))
  await file.retry()
  await file.write('c', '"c"')
  t.equal(await readFile(path, 'utf8'), '"a"\n"b"\n"c"\n')
  await file.close()
})

/** A file that must be written anew, on a disk without room for that. */
async function onFullDisk(t: Test) {
  const dir = await tempDir(t)
  const told: string[] = []
  const file = await SpoolFile.create(join(dir, 'own'), {
    spoolFailed: () => void told.push('failed'),
    spoolWorks: () => void told.push('works'),
  })
  await file.write('a', '"a"')
  await file.write('b', '"b"')
  const fill = () => symlink('/dev/full', `${file.path}.new`)
  await fill()
  await rm(file.path)
  await t.rejects(file.touch(), { code: 'ENOSPC' })
  return { file, told, fill }
}

const onLinux = process.platform === 'linux' ? false : 'needs /dev/full'

t.test(
  'entries that a full disk refuses wait, and are written when it has room',
  { skip: onLinux },
  async (t) => {
    const { file, told } = await onFullDisk(t)
    await t.rejects(file.write('c', '"c"'))
    await t.rejects(file.write('d', '"d"'))
    file.remove('a')
    file.remove('c')
    t.match(file, { size: 2, unwritten: 1, isFailing: true })
    await file.retry()
    t.match(file, { size: 2, unwritten: 0, isFailing: false })
    t.equal(await readFile(file.path, 'utf8'), '"b"\n"d"\n')
    await file.write('e', '"e"')
    t.equal(await readFile(file.path, 'utf8'), '"b"\n"d"\n"e"\n')
    t.same(told, ['failed', 'works'])
    await file.close()
  },
)

t.test(
  'however often it is tried, a full disk costs no descriptor, and is told once',
  { skip: onLinux },
  async (t) => {
    const { file, told, fill } = await onFullDisk(t)
    const before = (await readdir('/proc/self/fd')).length
    for (let i = 0; i < 20; i++) {
      await fill()
      await file.retry()
      await t.rejects(file.write(`${i}`, '"x"'))
    }
    t.equal((await readdir('/proc/self/fd')).length, before)
    t.equal(file.unwritten, 20)
    t.same(told, ['failed'])
    await file.close()
    t.equal((await readFile(file.path, 'utf8')).split('\n').length, 23, 'the end is a try, too')
  },
)

t.test('a disk that takes only an empty file counts as full', { skip: onLinux }, async (t) => {
  const { file, told } = await onFullDisk(t)
  for (const key of ['a', 'b']) file.remove(key)
  t.equal(file.size, 0)
  await symlink('/dev/full', `${file.path}.new`)
  await file.retry()
  t.ok(file.isFailing, 'also where nothing waits')
  t.same(told, ['failed'])
  await file.close()
})
