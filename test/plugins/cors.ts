import { readFile } from 'node:fs/promises'
import t from 'tap'
import type { Test } from 'tap'
import { startGateway } from '../fixtures/gateway.ts'

const models = "models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }"
const origin = 'https://app.example.com'

/** Headers that a page may always read, or that are for the browser itself. */
const always =
  /^(cache-control|content-(language|length|type|encoding|security-policy)|expires|last-modified|date|connection|keep-alive|transfer-encoding|vary|access-control-.*|x-(content-type-options|accel-buffering)|cross-origin-(resource|opener)-policy|referrer-policy|set-cookie)$/

/** All others in the table of docs/api.md. */
const api = await readFile(new URL('../../docs/api.md', import.meta.url), 'utf8')
const table = api.split('### Response headers')[1]?.split(/^#/m)[0] ?? ''
const readable = [...table.matchAll(/^\|([^|]+)\|/gm)]
  .flatMap(([, cell = '']) => [...cell.matchAll(/`([^`]+)`/g)])
  .map(([, name = '']) => name.toLowerCase())
  .filter((name) => !always.test(name))

async function startFor(t: Test, origins: string) {
  const gateway = await startGateway(t, {
    yaml: `${models}\nplugins: { cors: { origins: ${origins} } }`,
  })
  const preflight = (from: string, path = '/v1/chat') =>
    fetch(gateway.url + path, {
      method: 'OPTIONS',
      headers: {
        origin: from,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,x-stainless-os',
      },
    })
  return { ...gateway, preflight }
}

t.test('off, OPTIONS is a method like any other, and no page may read an answer', async (t) => {
  const gateway = await startFor(t, '[]')
  const answer = await gateway.preflight(origin)
  t.equal(answer.status, 405)
  t.equal(answer.headers.get('allow'), 'POST')
  t.match(await answer.json(), { error: { code: 'method_not_allowed' } })
  t.equal((await gateway.preflight(origin, '/v1/none')).status, 404)
  t.equal(answer.headers.get('access-control-allow-origin'), null)
})

t.test('a preflight is answered 204 before any key', async (t) => {
  const gateway = await startFor(t, `['${origin}']`)
  const ofPage = await gateway.preflight(origin, '/account/api/login')
  t.equal(ofPage.headers.get('access-control-allow-origin'), null, 'the account page is for itself')
  const { status, headers } = await gateway.preflight(origin)
  t.equal(status, 204)
  t.equal(headers.get('access-control-allow-origin'), origin)
  t.match(headers.get('access-control-allow-methods'), /POST/)
  t.equal(headers.get('access-control-allow-headers'), 'authorization,x-stainless-os')
  t.ok(Number(headers.get('access-control-max-age')) > 0)
  t.equal(headers.get('vary'), 'Origin')
})

t.test('refusals can be read too, with every documented header', async (t) => {
  const gateway = await startFor(t, `['${origin}']`)
  const answer = await fetch(`${gateway.url}/v1/models`, { headers: { origin } })
  t.equal(answer.status, 401)
  t.equal(answer.headers.get('access-control-allow-origin'), origin)
  const exposed = answer.headers.get('access-control-expose-headers')?.toLowerCase().split(', ')
  t.strictSame(exposed?.toSorted(), readable.toSorted())
})

t.test('no answer has a header that the page may not read', async (t) => {
  const gateway = await startFor(t, `['${origin}']`)
  const { key } = await gateway.account(1000)
  const headers = { origin, authorization: `Bearer ${key}`, 'idempotency-key': 'one' }
  const ask = (line: string, more: object = {}, body?: string | FormData) => {
    const [method = '', path = ''] = line.split(' ')
    return fetch(gateway.url + path, {
      method,
      headers: { ...headers, ...more },
      body: body ?? null,
    })
  }
  const json = { 'content-type': 'application/json' }
  const made = await ask('POST /api/chat/sessions', json, '{}')
  const { id } = (await made.clone().json()) as { id: string }
  const form = new FormData()
  form.set('session_id', id)
  form.set('file', new Blob(['x']), 'a.txt')
  const uploaded = await ask('POST /api/files/upload', {}, form)
  const file = (await uploaded.clone().json()) as { id: string }
  const chat = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hi' }] })
  const answers = [
    made,
    await ask('POST /api/chat/sessions', json, '{}'),
    uploaded,
    await ask(`GET /api/files/${file.id}`, { range: 'bytes=0-0', 'x-client-request-id': 'mine' }),
    await ask('POST /v1/chat/completions', json, chat),
    await ask(`POST /api/chat/sessions/${id}/messages`, json, '{"content":"Hi","model":"m"}'),
    await ask('DELETE /v1/models'),
    await ask('GET /v1/models', { authorization: '' }),
  ]
  const seen = new Set<string>()
  for (const answer of answers) {
    await answer.arrayBuffer()
    for (const [name] of answer.headers) seen.add(name)
  }
  const strange = [...seen].filter((name) => !readable.includes(name) && !always.test(name))
  t.strictSame(strange, [])
  t.ok(seen.has('content-range') && seen.has('x-ratelimit-limit-requests'), 'they had some')
})

t.test('a page of another origin may not read, and learns of no other origin', async (t) => {
  const gateway = await startFor(t, `['${origin}']`)
  for (const other of ['https://evil.example', `${origin}.evil.example`, 'null']) {
    const { headers } = await gateway.preflight(other)
    t.equal(headers.get('access-control-allow-origin'), null, other)
    t.equal(headers.get('vary'), 'Origin')
  }
})

t.test('with `*` every page may read, but with no credential of its own', async (t) => {
  const gateway = await startFor(t, "['*']")
  const { headers } = await gateway.preflight('https://any.example')
  t.equal(headers.get('access-control-allow-origin'), '*')
  t.equal(headers.get('access-control-allow-credentials'), null)
})

t.test('the admin listener never lets a page read', async (t) => {
  const gateway = await startFor(t, "['*']")
  const answer = await fetch(`${gateway.adminUrl}/admin/accounts`, { headers: { origin } })
  t.equal(answer.headers.get('access-control-allow-origin'), null)
})
