import t from 'tap'
import type { Test } from 'tap'
import { startGateway } from '../fixtures/gateway.ts'

const models = "models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }"
const origin = 'https://app.example.com'

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
  const { status, headers } = await gateway.preflight(origin)
  t.equal(status, 204)
  t.equal(headers.get('access-control-allow-origin'), origin)
  t.match(headers.get('access-control-allow-methods'), /POST/)
  t.equal(headers.get('access-control-allow-headers'), 'authorization,x-stainless-os')
  t.ok(Number(headers.get('access-control-max-age')) > 0)
  t.equal(headers.get('vary'), 'Origin')
})

t.test('refusals can be read too, with every header of the contract', async (t) => {
  const gateway = await startFor(t, `['${origin}']`)
  const answer = await fetch(`${gateway.url}/v1/models`, { headers: { origin } })
  t.equal(answer.status, 401)
  t.equal(answer.headers.get('access-control-allow-origin'), origin)
  const exposed = answer.headers.get('access-control-expose-headers')?.toLowerCase().split(', ')
  for (const name of [
    'x-request-id',
    'x-client-request-id',
    'x-message-id',
    'x-user-message-id',
    'x-should-retry',
    'retry-after',
    'retry-after-ms',
    'openai-processing-ms',
    'openai-version',
    'idempotent-replayed',
    'location',
    'content-location',
    'www-authenticate',
    'allow',
    'x-ratelimit-limit-requests',
    'x-ratelimit-remaining-tokens',
    'x-ratelimit-reset-tokens',
  ]) {
    t.ok(exposed?.includes(name), name)
  }
})

t.test('a page of another origin may not read, and learns of no other', async (t) => {
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
