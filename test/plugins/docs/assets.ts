import { gunzipSync } from 'node:zlib'
import t from 'tap'
import { assetAnswer, assetOf, files, readAsset } from '../../../src/plugins/docs/assets.ts'

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

t.test('each file can be read, and no other', async (t) => {
  for (const name of files.keys()) t.ok((await readAsset(name)).plain.length > 0, name)
  await t.rejects(readAsset('../assets.ts'))
  t.equal(await readAsset('page.js'), await readAsset('page.js'), 'once')
})

t.test('no file asks another host for anything', async (t) => {
  for (const name of ['page.html', 'page.js', 'swagger-ui.css']) {
    const text = String((await readAsset(name)).plain)
    t.notMatch(text, /(?:src|href)="(?:https?:)?\/\/|url\(["']?(?:https?:)?\/\/|@import/, name)
  }
})
