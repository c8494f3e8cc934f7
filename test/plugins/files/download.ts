// src/plugins/files/download.ts: the content, a part of it, or the way to the store.

import t from 'tap'
import { filesYaml, startFiles } from '../../fixtures/files-http.ts'
import { codeOf } from '../../fixtures/gateway.ts'
import { s3Yaml, startS3 } from '../../fixtures/s3-server.ts'

t.test('a part, a head, and what is known already', async (t) => {
  const { own } = await startFiles(t)
  const { id, sha256: hash } = await own.make({ content: '0123456789' })
  const part = await own.call(`GET /${id}`, { range: 'bytes=2-4' })
  t.equal(part.status, 206)
  t.equal(await part.text(), '234')
  t.equal(part.headers.get('content-range'), 'bytes 2-4/10')
  const head = await own.call(`HEAD /${id}`)
  t.equal(head.status, 200)
  t.equal(head.headers.get('content-length'), '10')
  const known = await own.call(`GET /${id}`, { 'if-none-match': `"${hash}"` })
  t.equal(known.status, 304)
  const beyond = await own.call(`GET /${id}`, { range: 'bytes=10-' })
  t.equal(beyond.status, 416)
  t.equal(beyond.headers.get('content-range'), 'bytes */10')
  t.equal(await codeOf(beyond), 'range_not_satisfiable')
})

t.test('large downloads are sent to the store, by a URL that needs no key', async (t) => {
  const s3 = await startS3(t)
  const yaml = `${filesYaml}
store: ${JSON.stringify({ s3: s3Yaml(s3) })}
plugins: { files: { redirect: presigned, redirect_above: 1KiB } }
`
  const { own } = await startFiles(t, { yaml })
  const content = 'x'.repeat(1025)
  const { id, sha256: hash } = await own.make({ content, name: 'größer.txt' })
  const answer = await own.call(`GET /${id}`)
  t.equal(answer.status, 302)
  t.equal(answer.headers.get('cache-control'), 'no-store')
  const url = new URL(answer.headers.get('location') ?? '')
  t.equal(url.origin, s3.endpoint)
  t.equal(url.searchParams.get('X-Amz-Expires'), '60')
  const got = await fetch(url, { headers: { range: 'bytes=1000-' } })
  t.equal(got.status, 206)
  t.equal(await got.text(), content.slice(1000))
  t.equal(got.headers.get('content-type'), 'text/plain; charset=utf-8')
  t.match(got.headers.get('content-disposition'), /^attachment; .*UTF-8''gr%C3%B6%C3%9Fer\.txt$/)
  url.searchParams.set('X-Amz-Expires', '61')
  t.equal((await fetch(url)).status, 403, 'nobody can change what was signed')
  t.equal((await own.call(`HEAD /${id}`)).headers.get('content-length'), '1025')
  t.equal((await own.call(`GET /${id}`, { 'if-none-match': `"${hash}"` })).status, 304)
  const { id: small } = await own.make({ content: content.slice(1) })
  t.equal(await (await own.call(`GET /${small}`)).text(), content.slice(1), 'by the gateway')
})
