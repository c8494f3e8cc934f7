// Revoked keys at two gateways that share a Redis: no cache delays the effect.

import t from 'tap'
import type { Test } from 'tap'
import { keys } from '../../src/redis/keys.ts'
import { startBackend } from '../fixtures/backend.ts'
import { chat, endless } from '../fixtures/backend-model.ts'
import { Gate } from '../fixtures/gate.ts'
import { codeOf, spawnGateway } from '../fixtures/gateway.ts'
import type { OwnProcess } from '../fixtures/gateway.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { Reading, ask, balanceOf, outputOnly, refOf } from '../fixtures/money.ts'
import { startRedis } from '../fixtures/redis-server.ts'

async function pair(t: Test, gate?: Gate) {
  const backend = await startBackend(t, chat(gate ? { gate } : {}))
  const redis = await startRedis(t)
  const yaml = outputOnly(backend.url)
  const gateways = [
    await spawnGateway(t, { redis, yaml }),
    await spawnGateway(t, { redis, yaml }),
  ] as const
  const account = await gateways[0].account(1000)
  const listed = await gateways[0].admin('GET', `accounts/${account.id}/keys`)
  const [row] = ((await listed.json()) as { data: { id: string }[] }).data
  return { backend, gateways, account, redis, keyId: row?.id ?? '' }
}

/** The statuses of a chat and a balance, at both gateways; the codes when they refuse. */
async function answersTo(gateways: readonly OwnProcess[], key: string) {
  const answers: (string | number)[] = []
  for (const gateway of gateways) {
    for (const answer of [
      await gateway.call('/v1/chat', key, ask(16, false)),
      await gateway.call('/api/billing/balance', key),
    ]) {
      answers.push(answer.status === 200 ? 200 : await codeOf(answer))
    }
  }
  return answers
}

const good = [200, 200, 200, 200]
const all = (code: string) => [code, code, code, code]

t.test('a revoked key is refused at once everywhere; its running streams end well', async (t) => {
  const gate = new Gate()
  const { backend, gateways, account, keyId } = await pair(t, gate)
  gate.next(3)
  const running = new Reading(await gateways[0].call('/v1/chat', account.key, ask(16, true)))
  await running.until('w1 ')
  t.equal((await gateways[1].admin('DELETE', `keys/${keyId}`)).status, 200)
  t.same(await answersTo(gateways, account.key), all('api_key_revoked'))
  t.equal(backend.requests.length, 1)
  gate.open()
  t.match(await running.end(), /data: \[DONE\]\n\n$/)
})

t.test('a key rotated without grace is refused at once, the new key works', async (t) => {
  const { gateways, account, keyId } = await pair(t)
  t.same(await answersTo(gateways, account.key), good)
  const made = await gateways[0].admin('POST', `keys/${keyId}/rotate`, {})
  const { key } = (await made.json()) as { key: string }
  const [first, ...others] = await answersTo(gateways, account.key)
  t.match(first, /^api_key_(revoked|expired)$/)
  t.same([...new Set(others)], [first])
  t.same(await answersTo(gateways, key), good)
})

t.test('a key rotated with grace works beside the new one until the grace ends', async (t) => {
  const { gateways, account, keyId, redis } = await pair(t)
  const made = await gateways[0].admin('POST', `keys/${keyId}/rotate`, { grace: 3600 })
  const { key } = (await made.json()) as { key: string }
  t.same(await answersTo(gateways, account.key), good)
  t.same(await answersTo(gateways, key), good)
  const { client } = await connectLink(t, redis.socket)
  const old = keys.key(
    refOf(account),
    (await client.hget(keys.keyList(refOf(account)), keyId)) ?? '',
  )
  const endsAt = Number(await client.hget(old, 'expires_at'))
  t.ok(Math.abs(endsAt - 3600 - Date.now() / 1000) < 60)
  await client.hset(old, 'expires_at', endsAt - 3660) // Pretends that the grace has ended.
  t.same(await answersTo(gateways, account.key), all('api_key_expired'))
  t.same(await answersTo(gateways, key), good)
})

t.test('a suspended account is refused everywhere, and let in again', async (t) => {
  const { gateways, account } = await pair(t)
  const set = (status: string) => gateways[0].admin('PATCH', `accounts/${account.id}`, { status })
  t.equal((await set('suspended')).status, 200)
  t.same(await answersTo(gateways, account.key), all('account_suspended'))
  t.equal((await set('active')).status, 200)
  t.same(await answersTo(gateways, account.key), good)
})

t.test(
  'a stream of a suspended account ends at a checkpoint, with a reason, and is charged',
  async (t) => {
    const backend = await startBackend(t, endless({ gapMs: 5 }))
    const redis = await startRedis(t)
    const yaml = outputOnly(backend.url)
    const [serving, other] = [
      await spawnGateway(t, { redis, yaml }),
      await spawnGateway(t, { redis, yaml }),
    ]
    const { id, key } = await serving.account(100_000)
    const running = await serving.call('/v1/chat', key, ask(10_000, true))
    t.equal(running.status, 200)
    t.equal((await other.admin('PATCH', `accounts/${id}`, { status: 'suspended' })).status, 200)
    const text = await running.text()
    t.match(text, /data: \{"error":\{[^\n]*"code":"account_suspended"[^\n]*\n\n$/)
    t.notMatch(text, /\[DONE\]/)
    const { reserved, spent } = await balanceOf(serving, { id, key })
    t.equal(reserved, 0)
    t.ok(spent > 0)
  },
)
