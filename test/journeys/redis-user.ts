// The Redis user in docs/security.md has all the rights that the gateway needs.

import { readFile } from 'node:fs/promises'
import t from 'tap'
import type { Test } from 'tap'
import { createArchive } from '../../src/ledger/archive.ts'
import { ledgerScripts } from '../../src/ledger/library.ts'
import { createScripts } from '../../src/redis/scripts.ts'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { useSessionsAndFiles } from '../fixtures/every-part.ts'
import { startGateway } from '../fixtures/gateway.ts'
import type { InProcess } from '../fixtures/gateway.ts'
import { refOf } from '../fixtures/money.ts'
import { startRedis } from '../fixtures/redis-server.ts'

const docs = await readFile(new URL('../../docs/security.md', import.meta.url), 'utf8')
const rules = /^user tollgate (.*)$/m.exec(docs)?.[1]?.split(' ') ?? []

t.test('a gateway works as the Redis user of the documentation', async (t) => {
  const redis = await startRedis(t, { args: ['--user', 'tollgate', ...rules] })
  const backend = await startBackend(t, chat({}))
  const gateway = await startGateway(t, {
    redis,
    redisUrl: `{ url: 'unix://${redis.socket}', username: tollgate, password: PASSWORD }`,
    yaml: `models: { m: { targets: [{ url: '${backend.url}' }] } }`,
  })
  const { id, key } = await gateway.account(10_000)
  const messages = [{ role: 'user', content: 'Hi' }]
  for (const stream of [true, false]) {
    const answer = await gateway.call('/v1/chat', key, { model: 'm', messages, stream })
    t.equal(answer.status, 200)
    await answer.text()
  }
  for (const path of ['balance', 'transactions', 'usage']) {
    t.equal((await gateway.call(`/api/billing/${path}`, key)).status, 200, path)
    t.equal((await gateway.admin('GET', `accounts/${id}/${path}`)).status, 200, path)
  }
  await useSessionsAndFiles(t, gateway, key)
  await archive(t, gateway, key)
  const keys = (await (await gateway.admin('GET', `accounts/${id}/keys`)).json()) as Keys
  const [first] = keys.data
  t.equal((await gateway.admin('POST', `keys/${first?.id}/rotate`, {})).status, 201)
  t.equal((await gateway.admin('DELETE', `keys/${first?.id}`)).status, 200)
  t.equal((await gateway.admin('PATCH', `accounts/${id}`, { status: 'suspended' })).status, 200)
  t.match(await (await gateway.admin('GET', 'audit')).json(), { entries: 4, differences: [] })
})

/** Archives as the gateway does each hour, but everything at once. */
async function archive(t: Test, { gateway }: InProcess, key: string): Promise<void> {
  const { redis: link, store } = gateway
  const scripts = createScripts({ link, library: ledgerScripts })
  const { archive } = createArchive({ redis: link.client, scripts, store })
  t.ok((await archive(refOf({ id: '', key }), Date.now() + 1000)) > 0, 'entries were archived')
}

interface Keys {
  readonly data: readonly { readonly id: string }[]
}
