// Two gateways on a real Redis Cluster of six nodes, as the Redis user of docs/security.md: all that a single Redis does,
// accounts spread over the primaries, and a primary that dies under load.

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { keys } from '../../src/redis/keys.ts'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { useSessionsAndFiles } from '../fixtures/every-part.ts'
import { accountsFor, breakUnderLoad } from '../fixtures/fail-over.ts'
import { keysOf } from '../fixtures/files-left.ts'
import { startGateway } from '../fixtures/gateway.ts'
import {
  ask,
  balanceOf,
  differencesOf,
  outputOnly,
  refOf,
  transactionsOf,
} from '../fixtures/money.ts'
import { startCluster } from '../fixtures/redis-cluster.ts'
import type { RedisNode } from '../fixtures/redis-node.ts'
import { chatOf, messageIdOf } from '../fixtures/session-chat.ts'
import { tempDir } from '../fixtures/temp-dir.ts'
import { until } from '../fixtures/until.ts'

const docs = await readFile(new URL('../../docs/security.md', import.meta.url), 'utf8')
const rules = /^user tollgate (.*)$/m.exec(docs)?.[1]?.split(' ') ?? []
const further = /`(\+cluster\|\S+(?: \+\S+)*)`/.exec(docs)?.[1]?.split(' ') ?? []

const user = ['--user', 'tollgate', ...rules, ...further]
const cluster = await startCluster(t, {
  args: ['--cluster-require-full-coverage', 'no', ...user],
})
const login = 'username: tollgate, password: PASSWORD }'
const redisUrl = cluster.yaml.replace(/ }$/, `, ${login}`)
const backend = await startBackend(t, chat({ chunks: 5 }))
const files = join(await tempDir(t), 'files')
const yaml = `${outputOnly(backend.url)}\nstore: { disk: { path: ${files} } }\n`
const one = await startGateway(t, { redisUrl, yaml })
const other = await startGateway(t, { redisUrl, yaml })
const primaryOf = (account: { id: string; key: string }) =>
  cluster.primaryOf(keys.account(refOf(account)))

async function* onEachPrimary() {
  const ports = new Set<number>()
  while (ports.size < 3) {
    const account = await one.account(10_000)
    const { port } = await primaryOf(account)
    if (ports.has(port)) continue
    ports.add(port)
    yield account
  }
}

t.test('every part works, for accounts on each primary', async (t) => {
  for await (const account of onEachPrimary()) {
    await useSessionsAndFiles(t, one, account.key)
    for (const path of ['balance', 'transactions', 'usage']) {
      t.equal((await other.call(`/api/billing/${path}`, account.key)).status, 200, path)
    }
    const paid = { 'idempotency-key': account.id }
    for (const gateway of [one, other]) {
      const path = `accounts/${account.id}/topup`
      t.equal((await gateway.admin('POST', path, { amount: 7 }, paid)).status, 200)
    }
    t.equal((await transactionsOf(other, account)).filter(({ amount }) => amount === 7).length, 1)
  }
  t.same(await differencesOf(one), [])
})

t.test('an account on any primary is deleted, and leaves its books alone', async (t) => {
  const { redis } = one.gateway
  for await (const account of onEachPrimary()) {
    await useSessionsAndFiles(t, one, account.key)
    const talk = chatOf(t, one, account)
    await (await talk.send(await talk.session())).end()
    t.equal((await other.admin('DELETE', `accounts/${account.id}?forfeit=true`)).status, 200)
    t.equal((await one.call('/v1/models', account.key)).status, 401)
    const tag = `{${refOf(account)}}:`
    const left = (await keysOf(redis.client)).filter((key) => key.startsWith(tag))
    const lasting = left.filter((key) => !/:(usage|settled|credit):|:(due|storage)$/.test(key))
    t.same(lasting.toSorted(), [`${tag}account`, `${tag}journal`])
  }
  t.same(await differencesOf(one), [])
})

t.test('200 requests at once at two gateways, on a balance for seven', async (t) => {
  const account = await one.account(35)
  const call = async (_: unknown, i: number) => {
    const gateway = i % 2 === 0 ? one : other
    const answer = await gateway.call('/v1/chat', account.key, ask(5, i % 3 === 0))
    await answer.text()
    return answer.status
  }
  const statuses = await Promise.all(Array.from({ length: 200 }, call))
  t.equal(statuses.filter((status) => status === 200).length, 7)
  t.ok(statuses.every((status) => status === 200 || status === 402))
  await until(async () => (await balanceOf(other, account)).reserved === 0)
  t.match(await balanceOf(other, account), { balance: 0, spent: 35 })
})

t.test('a stream that began at one gateway is read at the other', async (t) => {
  const account = await one.account(1000)
  const here = chatOf(t, one, account)
  const id = await here.session()
  const sent = await here.send(id)
  const whole = await sent.end()
  const there = await chatOf(t, other, account).at(`/${id}/messages/${messageIdOf(sent)}/stream`)
  t.equal(there.status, 200)
  t.ok((await there.end()).includes('w4 '))
  t.ok(whole.includes('w4 '))
})

/** Scripts that gateways have sent to a node since its statistics were reset. */
async function scriptsAt({ client }: RedisNode): Promise<number> {
  const stats = await client.info('commandstats')
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0)
}

t.test('1,000 accounts lie evenly on the primaries, and so does what they ask', async (t) => {
  const isEven = (counts: readonly number[]) => {
    const even = counts.reduce((sum, count) => sum + count, 0) / 3
    t.comment(counts.join(', '))
    t.equal(counts.length, 3)
    for (const count of counts) t.ok(Math.abs(count - even) < 0.2 * even, `${count} of ${even}`)
  }
  const counts = new Map<number, number>()
  const made = await Promise.all(Array.from({ length: 1000 }, () => one.account(100)))
  for (const account of made) {
    const { port } = await primaryOf(account)
    counts.set(port, (counts.get(port) ?? 0) + 1)
  }
  isEven([...counts.values()])
  const primaries = await cluster.primaries()
  for (const { client } of primaries) await client.config('RESETSTAT')
  const rounds = process.env.LONG ? 10 : 1
  for (let round = 0; round < rounds; round++) {
    const gateway = round % 2 === 0 ? one : other
    const call = async ({ key }: { key: string }) => {
      const answer = await gateway.call('/v1/chat', key, ask(5, false))
      await answer.text()
      return answer.status
    }
    for (let from = 0; from < made.length; from += 100) {
      const statuses = await Promise.all(made.slice(from, from + 100).map(call))
      t.same(new Set(statuses), new Set([200]))
    }
  }
  const scripts = await Promise.all(primaries.map(scriptsAt))
  isEven(scripts)
  t.ok(
    scripts.reduce((sum, count) => sum + count, 0) >= 2 * rounds * made.length,
    'hold and settle',
  )
  const page = (await (await other.admin('GET', 'accounts?limit=100')).json()) as {
    data: unknown[]
  }
  t.equal(page.data.length, 100)
})

t.test('a primary dies under load: its accounts get 503 until the next one is there', async (t) => {
  await cluster.healthy()
  const accounts = await accountsFor(one, 12)
  const dying = await cluster.primaryOf(keys.account(refOf(accounts[0] ?? { id: '', key: '' })))
  const onIt = new Set<unknown>()
  for (const account of accounts) if ((await primaryOf(account)) === dying) onIt.add(account)
  const { refusedMs, strange } = await breakUnderLoad(t, {
    gateways: [one, other],
    backend,
    accounts,
    breakIt: () => dying.kill(),
  })
  t.same(strange, [])
  t.ok(refusedMs.size > 0, 'somebody has noticed')
  t.same(
    [...refusedMs.keys()].filter((account) => !onIt.has(account)),
    [],
    'the accounts of the other primaries were served all the time',
  )
  t.comment(`refused for ${Math.round(Math.max(...refusedMs.values()))} ms`)
  await dying.restart()
  await cluster.healthy()
})

t.test('slots move under load: nobody is refused for longer than the move', async (t) => {
  await cluster.healthy()
  const accounts = await accountsFor(one, 6)
  const { strange, refusedMs } = await breakUnderLoad(t, {
    gateways: [one, other],
    backend,
    accounts,
    breakIt: async () => {
      const [to] = await cluster.primaries()
      for (const account of accounts) {
        const slot = await to?.client.cluster('KEYSLOT', keys.account(refOf(account)))
        if (to && slot !== undefined) await cluster.moveSlot(slot, to)
      }
    },
  })
  t.same(strange, [])
  t.comment(`${refusedMs.size} of ${accounts.length} accounts were refused for a moment`)
})
