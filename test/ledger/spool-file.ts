// The file of a spool: it stays small, and is whole whatever happens to it.

import { open, readFile, readdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { SpoolFile } from '../../src/ledger/spool-file.ts'
import { tempDir } from '../fixtures/temp-dir.ts'
import { until } from '../fixtures/until.ts'

t.test('a process whose file was taken goes on in a new one', async (t) => {
  const dir = await tempDir(t)
  const file = await SpoolFile.create(join(dir, 'own'))
  await file.write('a', '"a"')
  await rename(file.path, join(dir, 'taken'))
  await file.touch()
  await file.write('b', '"b"')
  t.equal(await readFile(file.path, 'utf8'), '"a"\n"b"\n')
  await file.close()
})

t.test('it does not grow with what is done, and is gone where all is', async (t) => {
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

t.test('a write that fails is told to whoever waits for it', async (t) => {
  const file = await SpoolFile.create(join(await tempDir(t), 'own'))
  await file.write('a', '"a"')
  await file.close()
  await t.rejects(file.write('b', '"b"'))
})

t.test('half a line that a full disk left spoils no other', async (t) => {
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
  handle.appendFile = append
  await file.write('c', '"c"')
  t.equal(await readFile(path, 'utf8'), '"a"\n"b"\n"c"\n')
  await file.close()
})
