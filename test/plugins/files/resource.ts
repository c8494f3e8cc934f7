// src/plugins/files/resource.ts: files listed and deleted.

import t from 'tap'
import { callerOf, filesYaml, startFiles } from '../../fixtures/files-http.ts'
import { codeOf } from '../../fixtures/gateway.ts'

t.test('lists are by session or of all, newest first, in pages', async (t) => {
  const { own, url } = await startFiles(t)
  const second = await callerOf({ url }, own.key)
  const ids: string[] = []
  for (const by of [own, second, own]) ids.push((await by.make({ content: 'x' })).id)
  const [a = '', b = '', c = ''] = ids
  const list = async (query: string) => {
    const { data } = (await (await own.call(`GET ?${query}`)).json()) as { data: { id: string }[] }
    return data.map(({ id }) => id)
  }
  t.strictSame(await list(''), [c, b, a])
  t.strictSame(await list(`session_id=${own.session}`), [c, a])
  t.strictSame(await list(`limit=1&after=${c}`), [b])
  t.strictSame(await list(`order=asc&session_id=${second.session}`), [b])
  t.equal(await codeOf(await own.call('GET ?session_id=sess_x')), 'session_not_found')
  t.equal(await codeOf(await own.call('GET ?after=x')), 'invalid_parameter')
  t.equal(await codeOf(await own.call('GET ?session_id=a&session_id=b')), 'invalid_parameter')
})

t.test('a deleted file is gone, from the list, the store and the quota', async (t) => {
  const yaml = filesYaml.replace('1000000 }', '1000000, storage: 1MiB }')
  const { own, gateway } = await startFiles(t, { yaml })
  const content = Buffer.alloc(700 * 1024, 'x')
  const { id } = await own.make({ content })
  t.equal(await codeOf(await own.upload({ content })), 'storage_quota_exceeded')
  t.match(await (await own.call('GET ')).json(), { data: [{ id }] })
  t.strictSame(await gateway.store.list('files/'), [`files/${own.ref}/${id}`])
  t.equal((await own.call(`DELETE /${id}`)).status, 204)
  for (const line of [`GET /${id}`, `GET /${id}/metadata`, `DELETE /${id}`]) {
    t.equal(await codeOf(await own.call(line)), 'file_not_found', line)
  }
  t.strictSame(await gateway.store.list('files/'), [])
  t.strictSame(((await (await own.call('GET ')).json()) as { data: unknown }).data, [])
  t.equal((await own.upload({ content })).status, 201, 'there is room again')
})
