// The counted bytes of an account's sessions are always those of its rows: after any mixture of sends, changes,
// deletions, refusals, cuts and deaths, by two gateways at once. With retention this is true after expired sessions
// were found, too.

import type { Redis } from '../../src/redis/client.ts'
import t from 'tap'
import type { Test } from 'tap'
import { keys } from '../../src/redis/keys.ts'
import { openSessions } from '../fixtures/sessions.ts'
import { startBackend } from '../fixtures/backend.ts'
import type { Script } from '../fixtures/backend.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { refOf } from '../fixtures/money.ts'
import { seeded } from '../fixtures/random.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { chatOf, chatYaml } from '../fixtures/session-chat.ts'
import { until } from '../fixtures/until.ts'

/** Counts like storage.lua. */
const weight = (bytes: number) => bytes + Math.ceil(bytes / 4)
const fields = ['id', 'created_at', 'updated_at', 'title', 'model', 'instructions', 'metadata']

async function weighed(redis: Redis, ref: string, id: string): Promise<number> {
  const texts = await redis.hmget(keys.session(ref, id), ...fields)
  const rows = await redis.hvals(keys.messages(ref, id))
  const session = texts.reduce((sum, text) => sum + weight(Buffer.byteLength(text ?? '')), 1024)
  return rows.reduce((sum, row) => sum + 512 + weight(Buffer.byteLength(row)), session)
}

/** Three sums: the account's counter, what its sessions say they count, and the bytes of their rows. */
async function sums(redis: Redis, ref: string) {
  const ids = await redis.zrange(keys.sessions(ref), '0', '-1')
  const counted = await Promise.all(ids.map((id) => redis.hget(keys.session(ref, id), 'counted')))
  const rows = await Promise.all(ids.map((id) => weighed(redis, ref, id)))
  const sum = (all: readonly unknown[]) =>
    all.reduce<number>((before, one) => before + Number(one), 0)
  return [Number(await redis.hget(keys.storage(ref), 'sessions')), sum(counted), sum(rows)] as const
}

/** Answers with some words, many words, a refusal, or a cut. */
function answers(random: (most: number) => number): Script {
  return ({ res, socket }) => {
    const fate = random(10)
    if (fate === 0) return void res.writeHead(500).end('{}')
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    const content = 'word '.repeat(fate < 3 ? 40_000 : 10)
    for (let i = 0; i < 3; i++) {
      res.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`)
    }
    if (fate === 1) return void socket.destroy()
    const finish = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
    res.end(`data: ${JSON.stringify(finish)}\n\ndata: [DONE]\n\n`)
  }
}

t.test('whatever is done, the counter is the sum of the rows', { timeout: 120_000 }, async (t) => {
  const random = seeded(13)
  const backend = await startBackend(t, answers(random))
  const yaml = chatYaml(backend.url)
  const gateway = await startGateway(t, { yaml })
  const gateways = [gateway, await startGateway(t, { yaml, redis: gateway.redis })]
  const account = await gateway.account(1_000_000_000)
  const { client } = await connectLink(t, gateway.redis.socket)
  const chat = chatOf(t, gateway, account)
  const ref = refOf(account)
  const ids = [await chat.session()]
  const step = async (i: number) => {
    const on = gateways[random(2)]
    const id = ids[random(ids.length)] ?? ''
    const what = random(10)
    const headers: Record<string, string> = random(2) ? { 'idempotency-key': `k${i}` } : {}
    if (what === 0) ids.push(await chat.session({ instructions: 'ü'.repeat(random(5000)) }))
    else if (what === 1) await (await chat.at(`/${id}`, { method: 'DELETE' }, on)).end()
    else if (what === 2) {
      const body = { title: 'x'.repeat(random(200)), instructions: random(2) ? null : 'y' }
      await (await chat.at(`/${id}`, { method: 'PATCH', body }, on)).end()
    } else {
      const sent = await chat.send(id, 'z'.repeat(random(3000)), { headers }, on)
      if (what === 3) sent.leave()
      else if (what !== 4) await sent.end().catch(() => undefined)
    }
  }
  for (let round = 0; round < 20; round++) {
    await Promise.all(Array.from({ length: 6 }, (_, i) => step(round * 6 + i)))
  }
  await until(async () => (await client.hlen(keys.holdRows(ref))) === 0)
  await until(async () => new Set(await sums(client, ref)).size === 1, 5000).catch(() => undefined)
  const [storage, counted, rows] = await sums(client, ref)
  t.ok(rows > 10_000)
  t.strictSame([storage, counted], [rows, rows])
  for (const id of ids) await (await chat.at(`/${id}`, { method: 'DELETE' })).end()
  t.equal((await sums(client, ref))[0], 0)
})

t.test('with retention, too, when the expired sessions were found', async (t: Test) => {
  const { book, room, redis, ref } = await openSessions(t, { retentionMs: 3_600_000 })
  const random = seeded(7)
  const ids: string[] = []
  for (let i = 0; i < 40; i++) {
    const { id } = await book.create(ref, { instructions: 'x'.repeat(random(9000)) })
    ids.push(id)
    if (random(3) === 0) await book.patch(ref, id, { instructions: 'y'.repeat(random(9000)) })
    if (random(3) === 0) await redis.del(keys.session(ref, id))
    else if (random(4) === 0) await book.remove(ref, id)
  }
  await room.forgetExpired(ref, ids)
  const [storage, counted, rows] = await sums(redis, ref)
  t.ok(rows > 1024)
  t.strictSame([storage, counted], [rows, rows])
})
