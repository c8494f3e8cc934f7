// src/store/disk.ts: whole objects or none, below its folder and nowhere else.

import { existsSync } from 'node:fs'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { diskStore } from '../../src/store/disk.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

t.test('what was put is got, from bytes and from a stream, and the last put wins', async (t) => {
  const store = diskStore(join(await tempDir(t), 'made/later'))
  await store.put('journal/a/1.json', Buffer.from('one'))
  t.equal(String(await store.get('journal/a/1.json')), 'one')
  await store.put('journal/a/1.json', Readable.from([Buffer.from('tw'), Buffer.from('o')]))
  t.equal(String(await store.get('journal/a/1.json')), 'two')
  await store.put('empty', new Uint8Array())
  t.equal((await store.get('empty')).length, 0)
})

t.test('an object that is not there: get says so, list does not mind', async (t) => {
  const store = diskStore(join(await tempDir(t), 'none'))
  await t.rejects(store.get('a'), { name: 'NoSuchObject' })
  t.strictSame(await store.list(''), [])
})

t.test('names are listed by prefix, sorted, at any depth', async (t) => {
  const store = diskStore(await tempDir(t))
  const names = ['j/b/2', 'j/a/10', 'j/a/9', 'j/ab', 'k', 'j-x']
  for (const name of names) await store.put(name, Buffer.from(name))
  t.strictSame(await store.list(''), names.toSorted())
  t.strictSame(await store.list('j/a'), ['j/a/10', 'j/a/9', 'j/ab'])
  t.strictSame(await store.list('j/a/'), ['j/a/10', 'j/a/9'])
  t.strictSame(await store.list('none/'), [])
})

t.test('a stream that breaks leaves the old object, and nothing half-written', async (t) => {
  const folder = await tempDir(t)
  const store = diskStore(folder)
  await store.put('a', Buffer.from('old'))
  const broken = Readable.from(
    (async function* () {
      yield Buffer.from('new')
      throw new Error('cut')
    })(),
  )
  await t.rejects(store.put('a', broken), /cut/)
  t.equal(String(await store.get('a')), 'old')
  t.strictSame(await store.list(''), ['a'])
  t.strictSame(await readdir(join(folder, '.tmp')), [])
})

t.test('many puts of one name at once leave one whole object', async (t) => {
  const store = diskStore(await tempDir(t))
  const texts = Array.from({ length: 20 }, (_, n) => String(n).repeat(10_000))
  await Promise.all(texts.map((text) => store.put('x/y', Buffer.from(text))))
  t.ok(texts.includes(String(await store.get('x/y'))))
})

t.test('a name that leads elsewhere is refused everywhere', async (t) => {
  const folder = await tempDir(t)
  await mkdir(join(folder, 'store'))
  await writeFile(join(folder, 'secret'), 'secret')
  const store = diskStore(join(folder, 'store'))
  const names = [
    '',
    '/',
    '/a',
    'a/',
    'a//b',
    '.',
    '..',
    '../secret',
    'a/../../secret',
    './a',
    '.tmp/a',
  ]
  for (const name of [
    ...names,
    'a\0b',
    'a\\b',
    'a\nb',
    'ä',
    'x'.repeat(201),
    'x/'.repeat(600) + 'x',
  ]) {
    const said = JSON.stringify(name.slice(0, 20))
    await t.rejects(store.put(name, Buffer.from('x')), TypeError, `put ${said}`)
    await t.rejects(store.get(name), TypeError, `get ${said}`)
  }
  for (const prefix of ['../', '/', 'a/../../', '.tmp/']) {
    await t.rejects(store.list(prefix), TypeError, `list ${prefix}`)
  }
  t.ok(existsSync(join(folder, 'secret')))
  t.strictSame(await readdir(join(folder, 'store')), [])
})
