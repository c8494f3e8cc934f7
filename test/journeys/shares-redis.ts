// Sessions fill Redis at most up to their account's storage, whatever is sent and deleted, and an honest customer
// beside them notices nothing. The memory is the one that Redis itself reports.

import t from 'tap'
import type { Test } from 'tap'
import { keys } from '../../src/redis/keys.ts'
import { startBackend } from '../fixtures/backend.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { refOf } from '../fixtures/money.ts'
import { chatYaml, chatOf, refusal } from '../fixtures/session-chat.ts'
import type { Chat } from '../fixtures/session-chat.ts'
import { startGateway } from '../fixtures/gateway.ts'

const MiB = 1024 * 1024
const storageBytes = 4 * MiB
/** Room for Redis' own tables, buffers of connections, and the honest customer. */
const slackBytes = MiB
const plans = (storage: string) =>
  `plans: { default: { requests_per_minute: 1000000, tokens_per_minute: 1000000000, concurrency: 1000, ${storage} } }`

type Attacked = Awaited<ReturnType<typeof attacked>>

async function attacked(t: Test, storage = `storage: ${storageBytes}`) {
  const backend = await startBackend(t)
  const yaml = chatYaml(backend.url, { model: 'price: { input: 0, output: 0 }' }).split('\n')[0]
  const gateway = await startGateway(t, { yaml: `${yaml}\n${plans(storage)}` })
  const { client } = await connectLink(t, gateway.redis.socket)
  const used = async () =>
    Number(/used_memory_dataset:(\d+)/.exec(await client.info('memory'))?.[1])
  const attacker = chatOf(t, gateway, await gateway.account(0, { name: 'attacker' }))
  const honest = chatOf(t, gateway, await gateway.account(1000, { name: 'honest' }))
  const session = await honest.session()
  return { gateway, used, attacker, honest: { ...honest, id: session } }
}

/** A customer keeps using the gateway, and is served. */
async function isServed(t: Test, { honest }: Attacked): Promise<void> {
  const answer = await honest.send(honest.id, { content: 'Hi', stream: false })
  t.equal(answer.status, 200, 'the honest customer is served')
  await answer.end()
}

/** Repeats until a refusal, at most this often. Resolves with the refusal's code and the number of successes. */
async function fill(most: number, one: (i: number) => ReturnType<Chat['at']>) {
  for (let taken = 0; taken < most; taken++) {
    const answer = await one(taken)
    if (answer.status >= 300) return { taken, code: (await refusal(answer))[1] }
    await answer.end()
  }
  return { taken: most, code: undefined }
}

async function growth(t: Test, world: Attacked, attack: () => Promise<unknown>): Promise<number> {
  await isServed(t, world)
  const before = await world.used()
  await attack()
  await isServed(t, world)
  const grown = (await world.used()) - before
  t.comment(`Redis grew by ${(grown / MiB).toFixed(2)} MiB`)
  return grown
}

t.test('instructions have 32 KiB at most', async (t) => {
  const world = await attacked(t)
  const grown = await growth(t, world, async () => {
    const body = { instructions: 'x'.repeat(MiB - 100) }
    const headers = (i: number) => ({ 'idempotency-key': `key-${i}` })
    const { taken, code } = await fill(30, (i) =>
      world.attacker.at('', { body, headers: headers(i) }),
    )
    t.comment(`${taken} of 30 were taken`)
    t.equal(code, 'invalid_parameter')
  })
  t.ok(grown < slackBytes)
})

for (const size of [0, 100, 5000, 32 * 1024 - 1]) {
  t.test(`sessions with ${size} bytes of instructions fill Redis up to the quota`, async (t) => {
    const world = await attacked(t)
    const grown = await growth(t, world, async () => {
      const body = { instructions: 'x'.repeat(size) }
      const { taken, code } = await fill(4000, (i) =>
        world.attacker.at('', { body, headers: { 'idempotency-key': `key-${i}` } }),
      )
      t.comment(`${taken} were taken`)
      t.equal(code, 'storage_quota_exceeded')
    })
    t.ok(grown < storageBytes + slackBytes)
    t.ok(grown > storageBytes / 4, 'what is counted is not far from what is used')
  })
}

t.test('messages fill Redis up to the quota', async (t) => {
  const world = await attacked(t)
  const { attacker } = world
  const id = await attacker.session()
  const grown = await growth(t, world, async () => {
    const content = 'x'.repeat(200_000)
    const { code } = await fill(200, () => attacker.send(id, { content, stream: false }))
    t.equal(code, 'storage_quota_exceeded')
  })
  t.ok(grown < storageBytes + slackBytes)
})

t.test('what deleted sessions leave counts, too', async (t) => {
  const world = await attacked(t, 'storage: 262144')
  const { attacker } = world
  const grown = await growth(t, world, async () => {
    const body = { instructions: 'x'.repeat(30_000) }
    const { taken, code } = await fill(2000, async (i) => {
      const made = await attacker.at('', { body, headers: { 'idempotency-key': `key-${i}` } })
      if (made.status !== 201) return made
      return attacker.at(`/${String((await made.json())['id'])}`, { method: 'DELETE' })
    })
    t.comment(`${taken} were made and deleted`)
    t.equal(code, 'storage_quota_exceeded')
  })
  t.ok(grown < 262_144 + slackBytes / 4)
})

t.test('files fill Redis up to the quota, also empty ones', async (t) => {
  const world = await attacked(t, `storage: ${MiB}`)
  const { attacker, gateway } = world
  const session = await attacker.session()
  const grown = await growth(t, world, async () => {
    let taken = 0
    for (let status = 201; status === 201 && taken < 2000; taken++) {
      const body = new FormData()
      body.set('session_id', session)
      body.set('file', new Blob([]), 'x'.repeat(200))
      const headers = { authorization: `Bearer ${attacker.key}` }
      const answer = await fetch(`${gateway.url}/api/files/upload`, {
        method: 'POST',
        headers,
        body,
      })
      await answer.text()
      status = answer.status
    }
    t.comment(`${taken} were taken`)
    t.ok(taken < 1000)
  })
  t.ok(grown < 1.5 * MiB)
})

t.test('without money there is less room, and with it all of it; free models go on', async (t) => {
  const world = await attacked(t, `storage: ${storageBytes}, storage_unpaid: ${MiB}`)
  const { attacker, honest } = world
  const body = { instructions: 'x'.repeat(32_000) }
  const free = await attacker.session()
  const poor = await fill(200, () => attacker.at('', { body }))
  t.equal(poor.code, 'storage_quota_exceeded')
  t.ok(poor.taken < 30, `${poor.taken}`)
  const rich = await fill(200, () => honest.at('', { body }))
  t.ok(rich.taken > 3 * poor.taken, `${rich.taken}`)
  const { data } = await attacker.read('?limit=3')
  for (const { id } of data as { id: string }[]) {
    await (await attacker.at(`/${id}`, { method: 'DELETE' })).end()
  }
  t.equal((await attacker.send(free, { content: 'Hi', stream: false })).status, 200)
})

t.test('kept frames count until they are removed, and at most twice as long', async (t) => {
  const world = await attacked(t)
  const { attacker, gateway } = world
  const id = await attacker.session()
  await (await attacker.send(id)).end()
  const { client } = await connectLink(t, gateway.redis.socket)
  const frames = await client.hget(keys.storage(refOf({ id: '', key: attacker.key })), 'frames')
  const [turn, kept, since] = (frames ?? '').split(' ').map(Number)
  t.equal(kept, 900_000)
  t.ok(Math.abs(Number(turn) - Date.now() - 900_000) < 60_000, 'at least as long as they are kept')
  t.ok(Number(since) > 1000)
  // Half a period late: rows older than this go at the next period.
  const late = Date.now() - 450_000
  const storage = keys.storage(refOf({ id: '', key: attacker.key }))
  await client.hset(storage, 'frames', `${late} 900000 5000 7000`)
  await (await attacker.send(id)).end()
  const next = ((await client.hget(storage, 'frames')) ?? '').split(' ').map(Number)
  t.strictSame([next[0], next[1], next[3]], [late + 900_000, 900_000, 5000])
})

t.test(
  'a creation that is repeated shows the session as it is, and 404 once it is gone',
  async (t) => {
    const { attacker } = await attacked(t)
    const asked = { body: { title: 'a' }, headers: { 'idempotency-key': 'one' } }
    const made = await attacker.at('', asked)
    const { id } = (await made.json()) as { id: string }
    await (await attacker.at(`/${id}`, { method: 'PATCH', body: { title: 'b' } })).end()
    const again = await attacker.at('', asked)
    t.match([again.status, again.headers['idempotent-replayed']], [201, 'true'])
    t.match(await again.json(), { id, title: 'b' })
    await (await attacker.at(`/${id}`, { method: 'DELETE' })).end()
    t.strictSame(await refusal(await attacker.at('', asked)), [404, 'session_not_found'])
  },
)
