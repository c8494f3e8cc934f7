import t from 'tap'
import { keys } from '../../src/redis/keys.ts'
import { refusal, startAdmin } from '../fixtures/admin-listener.ts'

t.test('one Idempotency-Key creates once; the key it made is nowhere readable', async (t) => {
  const { call, link } = await startAdmin(t)
  const headers = { 'idempotency-key': 'one' }
  const first = await call('POST accounts', { name: 'a' }, headers)
  const again = await call('POST accounts', { name: 'a' }, headers)
  t.equal(again.body.id, first.body.id)
  t.equal(first.headers.get('idempotent-replayed'), null)
  t.equal(again.headers.get('idempotent-replayed'), 'true')
  t.equal((await call('GET accounts')).body.data.length, 1)
  t.match(await call('POST accounts', { name: 'b' }, headers), {
    body: refusal('idempotency_key_reused'),
  })
  const made = await Promise.all([1, 2, 3].map(() => call('POST accounts/a/keys', {}, headers)))
  t.equal(new Set(made.map(({ body }) => body.key)).size, 1)
  t.equal((await call('GET accounts/a/keys')).body.data.length, 1)
  const id = made[0]?.body.id ?? ''
  const rotations = [
    await call(`POST keys/${id}/rotate`, {}, headers),
    await call(`POST keys/${id}/rotate`, {}, headers),
  ]
  t.strictSame(rotations[0]?.body, rotations[1]?.body)
  const secret = made[0]?.body.key.slice(-36) ?? ''
  const claims = await link.client.keys('admin-claim:*')
  t.equal(claims.length, 3, 'of an account, a key and a rotation')
  t.equal(secret.length, 36)
  for (const name of claims) {
    const value = Buffer.from((await link.client.get(name)) ?? '', 'base64url').toString('latin1')
    t.ok((await link.client.ttl(name)) > 86_000, 'for a day')
    t.notOk(value.includes(secret) || name.includes('one'), 'sealed')
  }
})

t.test('a refused creation does not use its Idempotency-Key up', async (t) => {
  const { call, accounts } = await startAdmin(t)
  const headers = { 'idempotency-key': 'again' }
  await call('POST accounts', { name: 'a' })
  const { body: key } = await call('POST accounts/a/keys')
  await accounts.revokeKey(key.id)
  const refused = await call(`POST keys/${key.id}/rotate`, { grace: 5 }, headers)
  t.match(refused, { status: 400, body: refusal('invalid_parameter', 'id') })
  const other = await call(`POST keys/${key.id}/rotate`, { grace: 6 }, headers)
  t.match(other.body, refusal('invalid_parameter', 'id'), 'and not idempotency_key_reused')
})

t.test('after a failure that may have created something, a key creates no more', async (t) => {
  const { call, link, accounts } = await startAdmin(t)
  const { body: account } = await call('POST accounts', { name: 'a' })
  const { ref } = await accounts.getAccount(account.id)
  const headers = { 'idempotency-key': 'unclear' }
  // A value of another type makes the creation fail after it has begun.
  await link.client.set(keys.keyList(ref), 'no hash')
  const failed = await call('POST accounts/a/keys', { name: 'k' }, headers)
  t.ok(failed.status >= 500, `${failed.status}`)
  await link.client.del(keys.keyList(ref))
  const again = await call('POST accounts/a/keys', { name: 'k' }, headers)
  t.equal(again.status, 201)
  t.equal(again.headers.get('idempotent-replayed'), 'true', 'what it claimed is carried out')
  const third = await call('POST accounts/a/keys', { name: 'k' }, headers)
  t.strictSame(third.body, again.body)
})
