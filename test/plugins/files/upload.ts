// src/plugins/files/upload.ts: a file over HTTP, and its refusals.

import { hash } from 'node:crypto'
import t from 'tap'
import { newId } from '../../../src/ids.ts'
import { keys } from '../../../src/redis/keys.ts'
import { filesYaml, startFiles, startUpload } from '../../fixtures/files-http.ts'
import { codeOf, refusedWith } from '../../fixtures/gateway.ts'
import { until } from '../../fixtures/until.ts'

t.test('an uploaded file is shown as documented, and comes back unchanged', async (t) => {
  const { own, url, gateway } = await startFiles(t)
  const content = 'Grüße\n'
  const answer = await own.upload({ content, name: '报告.txt', type: 'application/pdf' })
  t.equal(answer.status, 201)
  const file = (await answer.json()) as { id: string; created_at: number }
  t.equal(answer.headers.get('location'), `/api/files/${file.id}`)
  t.strictSame(file, {
    id: file.id,
    object: 'file',
    bytes: 8,
    created_at: file.created_at,
    expires_at: null,
    filename: '报告.txt',
    purpose: 'user_data',
    status: 'processed',
    session_id: own.session,
    content_type: 'text/plain; charset=utf-8',
    sha256: hash('sha256', content),
  })
  const got = await own.call(`GET /${file.id}`)
  t.equal(await got.text(), content)
  t.match(Object.fromEntries(got.headers), {
    'content-length': '8',
    'content-type': 'text/plain; charset=utf-8',
    etag: `"${hash('sha256', content)}"`,
    'content-disposition': /^attachment; filename="[ -~]+"; filename\*=UTF-8''%E6%8A%A5/,
    'content-security-policy': "sandbox; default-src 'none'",
    'x-content-type-options': 'nosniff',
  })
  t.same(await (await own.call(`GET /${file.id}/metadata`)).json(), file)
  const other = await fetch(`${url}/v1/api/files/${file.id}`, {
    headers: { authorization: `Bearer ${own.key}` },
  })
  t.equal(await other.text(), content, 'the other mount')
  const metrics = await gateway.metrics.text()
  t.match(metrics, /tollgate_upload_bytes_total 8\n/)
  t.match(metrics, /tollgate_download_bytes_total 16\n/)
})

t.test('the largest file is accepted, one byte more is not, and nothing of it stays', async (t) => {
  const yaml = `models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }
plugins: { files: { max_bytes: 100KiB, allow: [text/plain, image/*] } }
plans: { default: { storage: 258KiB } }
`
  const { own, gateway } = await startFiles(t, { yaml })
  t.equal((await own.make({ content: 'x'.repeat(102_400) })).bytes, 102_400)
  t.equal(await codeOf(await own.upload({ content: 'x'.repeat(102_401) })), 'file_too_large')
  t.equal(await codeOf(await own.upload({ content: '\0' })), 'unsupported_media_type')
  t.equal((await own.make({ content: 'x'.repeat(102_400) })).bytes, 102_400)
  const third = await own.upload({ content: 'x'.repeat(102_400) })
  t.same(await refusedWith(third), [403, 'storage_quota_exceeded'])
  t.equal((await gateway.store.list('files/')).length, 2)
  t.strictSame(await gateway.store.unfinished('files/'), [])
  t.equal((await own.make({ content: 'x'.repeat(51_200) })).bytes, 51_200, 'what is left')
})

t.test('before an upload is refused, expired sessions are cleaned up', async (t) => {
  const yaml = filesYaml.replace('plans: { default: { ', '$&storage: 1MiB, ')
  const { own, gateway } = await startFiles(t, { yaml })
  const counted = 1024 * 1024
  const storage = { sessions: counted, [newId('sess')]: counted }
  await gateway.redis.client.hset(keys.storage(own.ref), storage)
  t.equal((await own.upload({ content: 'x' })).status, 201)
})

t.test('running uploads share a limit of memory, across accounts', async (t) => {
  const yaml = `${filesYaml}limits: { uploads: 4MiB }\n`
  const { own, stranger, url } = await startFiles(t, { yaml })
  const slow = await startUpload(t, url, own)
  const refused = await stranger.upload({ content: 'x' })
  t.same(await refusedWith(refused), [503, 'overloaded'])
  slow.destroy()
  await until(async () => (await stranger.upload({ content: 'x' })).status === 201)
})
