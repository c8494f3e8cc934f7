import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import t from 'tap'
import { assetAnswer, assetOf, createAssets, packageFile } from '../../src/http/assets.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

const asset = await assetOf(Buffer.from('some text '.repeat(100)), 'text/plain')

const asked = (headers: Readonly<Record<string, string>>) => {
  const answer = assetAnswer({ headers }, asset)
  if (!('body' in answer)) throw new Error('no body')
  const coding = answer.headers?.['Content-Encoding']
  const bytes = Buffer.from(answer.body)
  const text = String(coding === 'gzip' ? gunzipSync(bytes) : bytes)
  return { status: answer.status, coding, text, headers: answer.headers ?? {} }
}

t.test('gzip goes only to those who take it', async (t) => {
  for (const [header, isTaken] of [
    ['gzip', true],
    ['deflate, gzip;q=0.5, br', true],
    ['GZIP', true],
    ['gzip;q=0', false],
    ['gzip; q=0.000', false],
    ['br', false],
    ['notgzip', false],
    ['', false],
  ] as const) {
    const { coding, text } = asked({ 'accept-encoding': header })
    t.equal(coding, isTaken ? 'gzip' : undefined, header)
    t.equal(text, asset.plain.toString(), header)
  }
  t.equal(asked({}).coding, undefined)
})

t.test('a client that has it gets 304 without the content', async (t) => {
  const { ETag = '' } = asked({}).headers
  t.match(ETag, /^W\/"[0-9a-f]{32}"$/)
  for (const header of [ETag, ETag.slice(2), `"a", ${ETag}`, '*']) {
    const { status, text, headers } = asked({ 'if-none-match': header })
    t.equal(status, 304, header)
    t.equal(text, '')
    t.equal(headers['ETag'], ETag)
  }
  for (const header of ['"a"', '', ETag.slice(0, -1)]) {
    t.equal(asked({ 'if-none-match': header }).status, 200, header)
  }
})

t.test('another content has another tag', async (t) => {
  t.not((await assetOf(Buffer.from('other'), 'text/plain')).tag, asset.tag)
})

t.test('a file is there under its name alone, and is read once it can be', async (t) => {
  const path = join(await tempDir(t), 'a.js')
  const answer = createAssets(new Map([['sub/a.js', path]]))
  const get = async (name: string) => answer({ headers: {} }, name)
  await t.rejects(get('sub/a.js'), { code: 'ENOENT' })
  writeFileSync(path, 'text')
  const found = await get('sub/a.js')
  t.match(found, { status: 200, headers: { 'Content-Type': 'text/javascript; charset=utf-8' } })
  rmSync(path)
  t.same(await get('sub/a.js'), found, 'kept')
  for (const name of ['a.js', path, 'sub/../sub/a.js', '__proto__', '']) {
    await t.rejects(get(name), { code: 'route_not_found' }, name)
  }
})

t.test('what would fail at every request fails at once', async (t) => {
  t.throws(() => createAssets(new Map([['a', '/a.exe']])), /no type is known/)
  t.throws(() => packageFile('no-such-package', 'a.js'), /no-such-package/)
})
