// src/plugins/files.ts: whose files they are, and with what they go.

import t from 'tap'
import { startFiles } from '../fixtures/files-http.ts'
import { codeOf } from '../fixtures/gateway.ts'

t.test("a session's files go with it", async (t) => {
  const { own, gateway, url } = await startFiles(t)
  const { id } = await own.make({ content: 'x' })
  const headers = { authorization: `Bearer ${own.key}` }
  const gone = await fetch(`${url}/api/chat/sessions/${own.session}`, { method: 'DELETE', headers })
  t.equal(gone.status, 204)
  t.equal(await codeOf(await own.call(`GET /${id}`)), 'file_not_found')
  t.strictSame(await gateway.store.list('files/'), [])
  t.equal(await codeOf(await own.upload({ content: 'x' })), 'session_not_found')
})

t.test(
  "somebody else's file is not there, and without a key or its scope nothing is",
  async (t) => {
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
  },
)
