// src/plugins/files-download.ts: the content, a part of it, or the way to the store.

import t from 'tap'
import { startFiles } from '../fixtures/files-http.ts'
import { codeOf } from '../fixtures/gateway.ts'

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
