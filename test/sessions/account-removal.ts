// Deletes accounts of whole gateways: what is left, what stops, what comes in between, and what a killed gateway leaves.

import t from 'tap'
import type { Test } from 'tap'
import { keys } from '../../src/redis/keys.ts'
import { newId } from '../../src/ids.ts'
import { createScripts } from '../../src/redis/scripts.ts'
import { Rounds } from '../../src/sessions/asleep/rounds.ts'
import { putToSleep } from '../../src/sessions/asleep/sleeping.ts'
import { sessionScripts } from '../../src/sessions/library.ts'
import { createAccountRemoval } from '../../src/sessions/account-removal.ts'
import { chat, endless } from '../fixtures/backend-model.ts'
import { startBackend } from '../fixtures/backend.ts'
import { callerIn } from '../fixtures/files-http.ts'
import { keysOf } from '../fixtures/files-left.ts'
import { openPlaces } from '../fixtures/files-world.ts'
import { codeOf, refusedWith, send, spawnGateway, startGateway } from '../fixtures/gateway.ts'
import type { Account, TestGateway } from '../fixtures/gateway.ts'
import { ask, balanceOf, differencesOf, refOf, transactionsOf } from '../fixtures/money.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { chatOf, chatYaml } from '../fixtures/session-chat.ts'
import { tempDir } from '../fixtures/temp-dir.ts'
import { until } from '../fixtures/until.ts'

async function start(t: Test, script = chat({ chunks: 5 }), more = '') {
  const server = await startRedis(t)
  const backend = await startBackend(t, script)
  const store = { disk: { path: await tempDir(t) } }
  const yaml = chatYaml(backend.url, { yaml: `store: ${JSON.stringify(store)}\n${more}` })
  const places = await openPlaces(t, server.socket, { place: store })
  return { server, yaml, ...places }
}

const remove = (gateway: TestGateway, id: string, query = '') =>
  gateway.admin('DELETE', `accounts/${id}${query}`)

/** What Redis has under the account's tag, without what expires by itself. */
async function leftOf({ redis }: Awaited<ReturnType<typeof start>>, account: Account) {
  const tag = `{${refOf(account)}}:`
  const found = (await keysOf(redis)).flatMap((key) =>
    key.startsWith(tag) ? key.slice(tag.length) : [],
  )
  return found.filter((name) => !/^(usage|settled|credit):|^rate$/.test(name)).toSorted()
}

/** Whatever Redis and the store say of it, by its id, its ref, its keys or its names. */
async function assertErased(t: Test, world: Awaited<ReturnType<typeof start>>, account: Account) {
  const { redis, store, sweepLater } = world
  await sweepLater()
  t.strictSame(await store.list('files/'), [], 'no object is left')
  t.strictSame(await store.unfinished('files/'), [])
  t.strictSame(await leftOf(world, account), ['account', 'journal'])
  t.strictSame(
    Object.values(await redis.hgetall(keys.keyIds)).filter((ref) => ref === refOf(account)),
    [],
  )
  const owners = Object.values(await redis.hgetall(keys.nameOwners))
  t.strictSame(
    owners.filter((owner) => owner.startsWith(account.id)),
    [],
  )
  const names = await redis.zrange(keys.accountNames, '0', '-1')
  t.strictSame(
    names.filter((name) => name.endsWith(account.id)),
    [],
  )
}

t.test('keys, sessions, messages, files and names go; the books stay', async (t) => {
  const world = await start(t)
  const one = await startGateway(t, { yaml: world.yaml, redis: world.server })
  const other = await startGateway(t, { yaml: world.yaml, redis: world.server })
  const fields = { name: 'Ana', external_id: 'cus_1', metadata: { mail: 'ana@example.com' } }
  const account = await one.account(1000, fields)
  const { key } = await one.keyFor(account.id, { name: "Ana's laptop" })
  const bystander = await one.account(1000)
  for (const { key } of [account, bystander]) {
    const talk = chatOf(t, one, { id: '', key })
    for (let i = 0; i < 20; i++) {
      const session = await talk.session({ title: 'secret' })
      if (i % 5 === 0) await (await talk.send(session, 'secret')).end()
      if (i % 4 === 0) await callerIn(one, { key, session }).make({ content: 'secret' })
    }
  }
  const before = await transactionsOf(one, account)
  t.strictSame(await refusedWith(await remove(one, account.id)), [409, 'account_not_empty'])
  t.equal((await one.call('/v1/models', key)).status, 200, 'nothing has changed')
  t.equal(await codeOf(await remove(one, account.id, '?forfeit=yes')), 'invalid_parameter')
  const answer = await remove(one, 'Ana', '?forfeit=true')
  t.equal(answer.status, 200)
  const deleted = await answer.json()
  t.match(deleted, { id: account.id, status: 'deleted', name: '', external_id: null, metadata: {} })
  for (const gateway of [one, other]) {
    for (const text of [key, account.key]) {
      t.strictSame(await refusedWith(await gateway.call('/v1/models', text)), [
        401,
        'invalid_api_key',
      ])
    }
  }
  await assertErasedBut(t, world, { account, bystander })

  const after = await transactionsOf(other, account)
  t.strictSame(after.slice(0, -1), before, 'the journal stays')
  const spent = before.reduce((sum, { amount }) => sum + amount, 0)
  t.match(after.at(-1), { type: 'adjustment', amount: -spent, balance_after: 0 })
  t.match(await balanceOf(other, account), { balance: 0, reserved: 0, owed: 0 })
  t.strictSame(await differencesOf(one), [])
  const listed = async (query: string) =>
    ((await (await one.admin('GET', `accounts${query}`)).json()) as { data: object[] }).data
  t.match(await listed(''), [{ id: bystander.id }])
  t.strictSame(await listed('?status=deleted'), [deleted])
  t.equal((await remove(other, account.id)).status, 200, 'again')
  for (const [method, path, body] of [
    ['POST', '/topup', { amount: 5 }],
    ['POST', '/keys', {}],
    ['PATCH', '', { status: 'active' }],
  ] as const) {
    const refused = await one.admin(method, `accounts/${account.id}${path}`, body)
    t.strictSame(await refusedWith(refused), [410, 'account_deleted'], path)
  }
  t.equal((await one.admin('POST', 'accounts', fields)).status, 201, 'its names are free')
})

async function assertErasedBut(
  t: Test,
  world: Awaited<ReturnType<typeof start>>,
  { account, bystander }: { account: Account; bystander: Account },
) {
  await world.sweepLater()
  const objects = await world.store.list('files/')
  t.equal(objects.length, 5, 'the files of the other account')
  t.ok(objects.every((name) => name.includes(refOf(bystander))))
  t.strictSame(await leftOf(world, account), ['account', 'journal'])
  for (const key of await keysOf(world.redis)) {
    const dump = await world.redis.dumpBuffer(key).catch(() => null)
    for (const word of ['Ana', 'cus_1', 'ana@example.com']) {
      t.notOk(dump?.includes(word), `${word} in ${key}`)
    }
  }
}

t.test('running streams stop, on whatever gateway, and are charged', async (t) => {
  const world = await start(t, endless({ gapMs: 5 }), 'plugins: { metering: { lease: 3s } }')
  const one = await startGateway(t, { yaml: world.yaml, redis: world.server })
  const other = await startGateway(t, { yaml: world.yaml, redis: world.server })
  const account = await one.account(100_000)
  const talk = chatOf(t, other, account)
  const session = await talk.session()
  const live = await talk.send(session)
  await live.until('w3 ')
  const stream = await one.call('/v1/chat', account.key, ask(5000, true))
  t.equal((await remove(one, account.id, '?forfeit=true')).status, 200)
  t.match(await stream.text(), /account_suspended/)
  await live.end().catch(() => undefined) // its frames may be gone before its reader has them
  const transactions = await transactionsOf(one, account)
  t.strictSame(
    transactions.map(({ type }) => type),
    ['topup', 'charge', 'charge', 'adjustment'],
  )
  t.strictSame(await differencesOf(one), [])
  await assertErased(t, world, account)
})

t.test('the deletion waits for requests as long as it may, and can be called again', async (t) => {
  const world = await start(t, endless({ gapMs: 5 }))
  const one = await startGateway(t, { yaml: world.yaml, redis: world.server })
  const account = await one.account(100_000)
  const stream = await one.call('/v1/chat', account.key, ask(5000, true))
  const { redis, ledger, accounts } = one.gateway
  const impatient = createAccountRemoval({ redis, ledger, accounts, patienceMs: 0 })
  const found = await accounts.getAccount(account.id)
  await t.rejects(impatient(found, true), { code: 'account_in_use', status: 409 })
  t.equal((await one.call('/v1/models', account.key)).status, 401, 'it is closed')
  await stream.text()
  t.equal((await remove(one, account.id)).status, 200)
  await assertErased(t, world, account)
})

t.test('the requests of a gateway that died end with their leases', async (t) => {
  const world = await start(t, endless({ gapMs: 5 }), 'plugins: { metering: { lease: 1s } }')
  const one = await startGateway(t, { yaml: world.yaml, redis: world.server })
  const dying = await spawnGateway(t, { yaml: world.yaml, redis: world.server })
  const account = await one.account(100_000)
  const stream = await dying.call('/v1/chat', account.key, ask(5000, true))
  stream.text().catch(() => undefined)
  await dying.kill()
  t.equal((await remove(one, account.id, '?forfeit=true')).status, 200)
  await assertErased(t, world, account)
  t.strictSame(await differencesOf(one), [])
})

t.test('a deletion that is killed in the middle goes on when it is called again', async (t) => {
  const world = await start(t)
  const { redis, server, yaml } = world
  const dying = await spawnGateway(t, { yaml, redis: server })
  const account = await dying.account(1000, { name: 'Ana', external_id: 'cus_1' })
  const ref = refOf(account)
  const own = callerIn(dying, {
    key: account.key,
    session: await chatOf(t, dying, account).session(),
  })
  for (let i = 0; i < 5; i++) await own.make({ content: `file ${i}` })
  const rows = redis.pipeline()
  for (let i = 0; i < 5000; i++) {
    const id = newId('sess')
    rows.hset(keys.session(ref, id), { id, created_at: 1, counted: 1, title: 'secret' })
    rows.zadd(keys.sessions(ref), 0, id)
  }
  await rows.exec()
  const cut = remove(dying, account.id, '?forfeit=true').catch(() => undefined)
  await until(async () => (await redis.zcard(keys.sessions(ref))) < 4500)
  await dying.kill()
  await cut
  const left = await redis.zcard(keys.sessions(ref))
  t.ok(left > 0 && left < 4500, `${left} sessions are left`)
  const next = await spawnGateway(t, { yaml, redis: server })
  const found = await next.admin('GET', `accounts/${account.id}`)
  t.match(await found.json(), { status: 'deleting', name: 'Ana' })
  t.equal((await next.call('/v1/models', account.key)).status, 401)
  t.equal((await remove(next, 'Ana')).status, 200, 'it was forfeited before')
  await assertErased(t, world, account)
  t.strictSame(await differencesOf(next), [])
  const again = { name: 'Ana', external_id: 'cus_1' }
  t.equal((await next.admin('POST', 'accounts', again)).status, 201)
})

t.test(
  'a gateway that died between a session and its files leaves nothing to look at for days',
  async (t) => {
    const world = await start(t)
    const { redis } = world
    const one = await startGateway(t, { yaml: world.yaml, redis: world.server })
    const account = await one.account(1000)
    const ref = refOf(account)
    const session = await chatOf(t, one, account).session()
    await callerIn(one, { key: account.key, session }).make({ content: 'secret' })
    await redis.zrem(keys.sessions(ref), session)
    await redis.unlink(keys.session(ref, session))
    t.equal((await remove(one, account.id, '?forfeit=true')).status, 200)
    const due = await redis.zrange(keys.due(ref), '0', '-1')
    t.notOk(
      due.some((member) => member.includes(session)),
      due.join(),
    )
    await assertErased(t, world, account)
  },
)

t.test('what was let in just before its account was closed has no room any more', async (t) => {
  const world = await start(t)
  const one = await startGateway(t, { yaml: world.yaml, redis: world.server })
  const account = await one.account(1000)
  const { key } = account
  const talk = chatOf(t, one, account)
  const session = await talk.session()
  // Without the suspension, as if each request had passed its check already.
  await world.redis.hset(keys.account(refOf(account)), 'closed_at', '1')
  const path = `/api/chat/sessions/${session}`
  const title = { method: 'PATCH', token: key, body: { title: 'secret' } }
  for (const [what, answer] of [
    ['a session', await one.call('/api/chat/sessions', key, {})],
    ['a message', await one.call(`${path}/messages`, key, { content: 'secret', model: 'm' })],
    ['a title', await send(one.url + path, title)],
    ['a file', await callerIn(one, { key, session }).upload({ content: 'secret' })],
  ] as const) {
    t.strictSame(await refusedWith(answer), [403, 'storage_quota_exceeded'], what)
  }
  t.equal((await remove(one, account.id, '?forfeit=true')).status, 200)
  await assertErased(t, world, account)
})

t.test('whatever meets a deletion leaves nothing behind', async (t) => {
  const world = await start(t)
  const { redis, server, yaml } = world
  const gateways = [
    await startGateway(t, { yaml, redis: server }),
    await startGateway(t, { yaml, redis: server }),
  ] as const
  const [one, other] = gateways
  const account = await one.account(1_000_000)
  const ref = refOf(account)
  const { key } = account
  let isOver = false
  const seen = new Set<string>()
  let rounds = 0
  const loop = async (work: (i: number, on: TestGateway) => Promise<Response>) => {
    for (let i = 0; !isOver; i++) {
      const on = gateways[i % 2] ?? one
      const answer = await work(i, on).catch(() => undefined)
      const text = await answer?.text().catch(() => '')
      rounds++
      seen.add(/"code":"(\w+)"/.exec(text ?? '')?.[1] ?? String(answer?.status))
    }
  }
  const sessions = [await chatOf(t, one, account).session()]
  const anyOf = (i: number) => sessions[i % sessions.length] ?? ''
  const loops = [
    loop(async (_i, on) => {
      const answer = await on.call('/api/chat/sessions', key, { title: 'secret' })
      if (answer.ok) sessions.push(((await answer.clone().json()) as { id: string }).id)
      return answer
    }),
    ...[0, 1].map(() =>
      loop((i, on) =>
        on.call(`/api/chat/sessions/${anyOf(i)}/messages`, key, { content: 'secret', model: 'm' }),
      ),
    ),
    ...[0, 1].map(() =>
      loop((i, on) => callerIn(on, { key, session: anyOf(i) }).upload({ content: `secret ${i}` })),
    ),
    loop((_i, on) => on.call('/v1/chat', key, ask(5, true))),
    loop((_i, on) => on.admin('POST', `accounts/${account.id}/topup`, { amount: 7 })),
    loop((i, on) =>
      on.admin('PATCH', `accounts/${account.id}`, { name: `Ana ${i}`, external_id: `cus_${i}` }),
    ),
    loop((_i, on) => on.admin('POST', `accounts/${account.id}/keys`, { name: "Ana's" })),
  ]
  await until(async () => (await redis.zcard(keys.files(ref))) > 20 && rounds > 300)
  const answer = await remove(other, account.id, '?forfeit=true')
  t.equal(answer.status, 200)
  const after = rounds
  await until(() => rounds > after + 200)
  isOver = true
  await Promise.all(loops)
  t.ok(seen.has('account_deleted') && seen.has('invalid_api_key'), [...seen].join(' '))
  t.notOk(seen.has('internal_error'))
  await assertErased(t, world, account)
  t.match(await balanceOf(one, account), { balance: 0, reserved: 0, owed: 0 })
  t.strictSame(await differencesOf(one), [])
})

t.test('the messages of sleeping sessions go from the store, too', async (t) => {
  const world = await start(t)
  const { redis, server, store } = world
  const one = await startGateway(t, { yaml: world.yaml, redis: server })
  const account = await one.account(1000)
  const ref = refOf(account)
  const talk = chatOf(t, one, account)
  const scripts = createScripts({ link: one.gateway.redis, library: sessionScripts })
  const parts = { redis, scripts, store }
  const sessions: string[] = []
  for (let i = 0; i < 3; i++) {
    const session = await talk.session()
    await (await talk.send(session, 'secret')).end()
    t.ok(await putToSleep(parts, { ref, session }))
    sessions.push(session)
  }
  // One has woken, one has expired.
  await talk.messages(sessions[0] ?? '')
  await redis.unlink(keys.session(ref, sessions[1] ?? ''))
  t.equal((await store.list('sessions/')).length, 3)
  t.equal((await remove(one, account.id, '?forfeit=true')).status, 200)
  const { log, metrics } = one.gateway
  t.match(await new Rounds({ ...parts, log, metrics }).walk(0), { removed: 3 })
  t.strictSame(await store.list('sessions/'), [])
  await assertErased(t, world, account)
})
