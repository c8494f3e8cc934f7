// A send whose first try died between its claim and its message: the next try takes the key over, once.

import t from 'tap'
import { createClaims } from '../../src/redis/claims.ts'
import { chat } from '../fixtures/backend-model.ts'
import { startBackend } from '../fixtures/backend.ts'
import { startGateway } from '../fixtures/gateway.ts'

t.test('a send takes over from a try that died, and is sent once', async (t) => {
  const backend = await startBackend(t, chat())
  const { call, account, gateway } = await startGateway(t, {
    yaml: `models: { m: { targets: [{ url: "${backend.url}" }] } }`,
  })
  const { key } = await account(100_000)
  const { id } = (await (await call('/api/chat/sessions', key, {})).json()) as { id: string }
  const path = `/api/chat/sessions/${id}/messages`
  const body = JSON.stringify({ content: 'Hi' })
  const ref = key.split('_')[2] ?? ''
  const claims = createClaims({ link: gateway.redis })
  const died = claims({
    id: 'req_died',
    ref,
    method: 'POST',
    path,
    key: 'k',
    body: Buffer.from(body),
  })
  const taken = await died.take()
  t.equal(taken.is, 'taken')
  if (taken.is === 'taken') await gateway.redis.client.pexpire(taken.claim.words('').key, 200)

  const send = () =>
    fetch(`${gateway.listeners.public.address}${path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        'idempotency-key': 'k',
      },
      body,
    })
  const first = await send()
  t.equal(first.status, 200)
  const text = await first.text()
  const again = await send()
  t.equal(await again.text(), text)
  t.equal(again.headers.get('idempotent-replayed'), 'true')
  t.equal(again.headers.get('x-message-id'), first.headers.get('x-message-id'))
  t.equal(again.headers.get('x-user-message-id'), first.headers.get('x-user-message-id'))
  t.equal(backend.requests.length, 1)
})
