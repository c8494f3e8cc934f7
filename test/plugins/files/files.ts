// src/plugins/files/files.ts: who owns a file, and when it is deleted.

import t from 'tap'
import { filesYaml, startFiles, startUpload } from '../../fixtures/files-http.ts'
import { codeOf, startGateway } from '../../fixtures/gateway.ts'
import { until } from '../../fixtures/until.ts'

t.test('deleting a session deletes its files', async (t) => {
  const { own, gateway, url } = await startFiles(t)
  const { id } = await own.make({ content: 'x' })
  const headers = { authorization: `Bearer ${own.key}` }
  const gone = await fetch(`${url}/api/chat/sessions/${own.session}`, { method: 'DELETE', headers })
  t.equal(gone.status, 204)
  t.equal(await codeOf(await own.call(`GET /${id}`)), 'file_not_found')
  t.strictSame(await gateway.store.list('files/'), [])
  t.equal(await codeOf(await own.upload({ content: 'x' })), 'session_not_found')
})

t.test("somebody else's file is not found, nor any without a key or its scope", async (t) => {
  const { own, stranger, admin, url } = await startFiles(t)
  const { id } = await own.make({ content: 'x' })
  for (const line of [`GET /${id}`, `HEAD /${id}`, `GET /${id}/metadata`, `DELETE /${id}`]) {
    t.equal((await stranger.call(line)).status, 404, line)
  }
  const theirs = await stranger.upload({ content: 'x', fields: { session_id: own.session } })
  t.equal(await codeOf(theirs), 'session_not_found')
  t.equal((await own.call(`GET /${id}`)).status, 200)
  t.equal(await codeOf(await fetch(`${url}/api/files/${id}`)), 'missing_api_key')
  const accounts = (await (await admin('GET', 'accounts')).json()) as { data: { id: string }[] }
  const made = await admin('POST', `accounts/${accounts.data[0]?.id}/keys`, { scopes: ['chat'] })
  const { key } = (await made.json()) as { key: string }
  const answer = await fetch(`${url}/api/files`, { headers: { authorization: `Bearer ${key}` } })
  t.equal(await codeOf(answer), 'insufficient_scope')
})

const fewPlaces = `${filesYaml}plugins: { files: { uploads: 2, downloads: 2 } }\n`

t.test('an account may run only a number of uploads and downloads at a time', async (t) => {
  const { own, stranger, url } = await startFiles(t, { yaml: fewPlaces })
  const { id } = await own.make({ content: Buffer.alloc(8 * 2 ** 20) })
  const leaving = await startUpload(t, url, own)
  await startUpload(t, url, own)
  const refused = await own.upload({ content: 'x' })
  t.equal(refused.headers.get('retry-after'), '1')
  t.equal(await codeOf(refused), 'concurrency_limit_exceeded')
  t.equal((await stranger.upload({ content: 'x' })).status, 201)
  leaving.destroy()
  await until(async () => (await own.upload({ content: 'x' })).status === 201)

  const unread = [await own.call(`GET /${id}`), await own.call(`GET /${id}`)]
  t.equal(await codeOf(await own.call(`GET /${id}`)), 'concurrency_limit_exceeded')
  t.equal((await own.call(`GET /${id}/metadata`)).status, 200)
  for (const { body } of unread) await body?.cancel()
  await until(async () => (await own.call(`HEAD /${id}`)).status === 200)
})

t.test('with memory for less than an upload, one goes through all the same', async (t) => {
  const { own } = await startFiles(t, { yaml: `${filesYaml}limits: { uploads: 1KiB }\n` })
  t.equal((await own.upload({ content: 'x' })).status, 201)
})

t.test('what the store cannot do stops the start', async (t) => {
  const s3 = "store: { s3: { bucket: files, endpoint: 'http://127.0.0.1:1', part_size: 5MiB } }"
  const wrong: [string, RegExp][] = [
    ['plugins: { files: { redirect: presigned } }', /presigned needs an S3 store/],
    [`${s3}\nplugins: { files: { max_bytes: 50GiB } }`, /max_bytes is more than 10000 parts/],
  ]
  for (const [block, message] of wrong) {
    const yaml = `models: { demo: { targets: [demo] } }\n${block}\n`
    await t.rejects(startGateway(t, { yaml }), { message })
  }
})
