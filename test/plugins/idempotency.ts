// The plugin with routes that create something, as an operator's own plugin may have them.

import t from 'tap'
import type { Test } from 'tap'
import { createClaims } from '../../src/redis/claims.ts'
import { z } from '../../src/config/schema.ts'
import { GatewayError } from '../../src/errors.ts'
import { answering } from '../../src/exchange.ts'
import type { Answer, Exchange, Route } from '../../src/exchange.ts'
import { parseKey } from '../../src/accounts/api-key.ts'
import type { Plugin } from '../../src/plugin.ts'
import { codeOf, refusedWith, startGateway } from '../fixtures/gateway.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { until } from '../fixtures/until.ts'

/** Shared by the gateways of a test. */
interface Makings {
  /** How many requests reached the creating routes. */
  come: number
  /** How often something was created. */
  count: number
  /** Each creation waits for this. */
  gate: Promise<void>
}

const made = (id: string): Answer => ({
  status: 201,
  headers: { Location: `/${id}` },
  body: JSON.stringify({ id }),
})

function maker(makings: Makings): Plugin {
  return {
    name: 'maker',
    schema: z.strictObject({}),
    setup({ redis }) {
      const make = async (x: Exchange): Promise<Answer> => {
        await makings.gate
        const { refuse } = JSON.parse(x.body.toString()) as { refuse?: boolean }
        if (refuse) throw new GatewayError('session_busy')
        const id = `made-${++makings.count}`
        await x.claim?.keep(id, async ({ key, kept }) => {
          await redis.client.set(key, kept, 'EX', 86_400)
          return { word: 'ok' }
        })
        return made(id)
      }
      const common = {
        method: 'POST',
        access: 'any-key',
        body: 'json',
        maxBytes: 100,
        creates: true,
        begin: answering(make),
      } as const
      const plain = { ...common, replay: async (_x: Exchange, id: string) => made(id) }
      const replay: Route['replay'] = async (_x, pointer) => ({
        status: 200,
        headers: { 'Content-Location': `/${pointer}` },
        async stream(out) {
          out.write(JSON.stringify({ id: pointer }))
        },
      })
      const streamed = { ...common, replay, awaitsFirst: true }
      return {
        begin: ({ route }) => void (route.creates && makings.come++),
        routes: [
          { ...plain, path: '/api/plain' },
          { ...plain, path: '/api/other' },
          { ...streamed, path: '/api/streamed' },
          { ...streamed, path: '/api/paid', metered: true },
        ],
      }
    },
  }
}

async function start(t: Test) {
  const makings: Makings = { come: 0, count: 0, gate: Promise.resolve() }
  const server = await startRedis(t)
  const setup = {
    yaml: 'models: { demo: { targets: [demo] } }\ndrain: 200ms',
    redis: server,
  }
  const gateways = [
    await startGateway(t, { ...setup, ownPlugins: [maker(makings)] }),
    await startGateway(t, { ...setup, ownPlugins: [maker(makings)] }),
  ] as const
  const [gateway] = gateways
  const { key: apiKey } = await gateway.account(1000)
  const redis = gateway.gateway.redis.client
  const claims = async () => (await redis.keys('*:claim:*')).length
  const post = (path: string, options: Sent = {}) => {
    const { key = 'one', body = {}, bearer = apiKey, on = 0, signal, headers } = options
    return fetch(gateways[on].url + path, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${bearer}`,
        'content-type': 'application/json',
        'idempotency-key': key,
        ...headers,
      },
      body: JSON.stringify(body),
      ...(signal && { signal }),
    })
  }
  /** A first try that dies before it has created anything, and whose lease ends in `leaseMs`. */
  const crash = async (path: string, leaseMs: number) => {
    const attemptOf = createClaims({ link: gateway.gateway.redis })
    const ref = parseKey(apiKey)?.ref ?? ''
    const body = Buffer.from('{}')
    const found = await attemptOf({
      id: 'dead',
      ref,
      method: 'POST',
      path,
      key: 'one',
      body,
    }).take()
    if (found.is !== 'taken') throw new Error(found.is)
    await redis.pexpire(found.claim.words('').key, leaseMs)
  }
  return { makings, gateway, apiKey, redis, claims, post, crash }
}

interface Sent {
  readonly key?: string
  readonly body?: object
  readonly bearer?: string
  readonly on?: 0 | 1
  readonly signal?: AbortSignal
  readonly headers?: Readonly<Record<string, string>>
}

const isReplayed = (answer: Response) => answer.headers.get('idempotent-replayed') === 'true'

t.test('a repetition gets exactly the first answer, on every instance', async (t) => {
  const { makings, redis, post } = await start(t)
  const first = await post('/api/plain')
  t.equal(isReplayed(first), false)
  const text = await first.text()
  for (const [on, path] of [
    [0, '/api/plain'],
    [1, '/api/plain'],
    [1, '/v1/api/plain'],
  ] as const) {
    const again = await post(path, { on })
    t.equal(isReplayed(again), true)
    t.equal(again.status, 201)
    t.equal(again.headers.get('location'), '/made-1')
    t.equal(await again.text(), text)
  }
  t.equal(makings.count, 1)
  const [claim = ''] = await redis.keys('*:claim:*')
  t.ok((await redis.ttl(claim)) > 86_000, 'for a day')
})

t.test('50 at once, one creation: the others are told that it runs, and when to ask', async (t) => {
  const { makings, post } = await start(t)
  const gate = Promise.withResolvers<void>()
  makings.gate = gate.promise
  const answers: Response[] = []
  const all = Array.from({ length: 50 }, async (_, i) => {
    answers.push(await post('/api/plain', { on: i % 2 === 0 ? 0 : 1 }))
  })
  await until(() => answers.length === 49)
  const early = [...answers]
  gate.resolve()
  await Promise.all(all)
  for (const one of early) {
    t.equal(one.headers.get('retry-after'), '1')
    t.equal(one.headers.get('x-should-retry'), null)
    t.match(
      { status: one.status, code: await codeOf(one) },
      { status: 409, code: 'idempotency_in_progress' },
    )
  }
  t.equal(answers.at(-1)?.status, 201)
  t.equal(makings.count, 1)
})

t.test('50 at once where there is a stream: one creation, 50 equal answers', async (t) => {
  const { makings, claims, post } = await start(t)
  const gate = Promise.withResolvers<void>()
  makings.gate = gate.promise
  const all = Array.from({ length: 50 }, (_, i) =>
    post('/api/streamed', { on: i % 2 === 0 ? 0 : 1 }),
  )
  await until(async () => (await claims()) === 1)
  gate.resolve()
  const answers = await Promise.all(all)
  t.equal(makings.count, 1)
  t.equal(answers.filter(isReplayed).length, 49)
  const bodies = await Promise.all(answers.map((one) => one.text()))
  t.strictSame([...new Set(bodies)], ['{"id":"made-1"}'])
  const late = await post('/api/streamed', { headers: { 'last-event-id': 'made-1:3' } })
  t.match([isReplayed(late), await late.json()], [true, { id: 'made-1' }], 'from the middle, too')
})

t.test('another body is refused; other paths, keys and accounts are not affected', async (t) => {
  const { makings, gateway, post } = await start(t)
  await post('/api/plain')
  const reused = await post('/api/plain', { body: { other: 1 } })
  t.same(await refusedWith(reused), [422, 'idempotency_key_reused'])
  const { key: bearer } = await gateway.account(1000)
  const others = [{ bearer }, { key: 'two' }, { path: '/api/other' }, { path: '/api/streamed' }]
  for (const { path = '/api/plain', ...options } of others) {
    const answer = await post(path, options)
    t.match([answer.status, isReplayed(answer)], [201, false])
  }
  t.equal(makings.count, 5)
})

t.test('a request to resume takes no claim', async (t) => {
  const { claims, post } = await start(t)
  await post('/api/streamed', { headers: { 'last-event-id': 'made-1:3' } })
  t.equal(await claims(), 0)
  await post('/api/plain', { headers: { 'last-event-id': 'made-1:3' } })
  t.equal(await claims(), 1, 'but where nothing can be read on')
})

t.test('a refusal is not kept: the same key works for a better try', async (t) => {
  const { makings, claims, post } = await start(t)
  for (const path of ['/api/plain', '/api/streamed']) {
    t.equal(await codeOf(await post(path, { body: { refuse: true } })), 'session_busy')
    t.equal(await claims(), path === '/api/plain' ? 0 : 1)
    t.equal((await post(path)).status, 201)
  }
  t.equal(makings.count, 2)
})

t.test('after a refused first try, one of those who wait goes on', async (t) => {
  const { makings, claims, post } = await start(t)
  const gate = Promise.withResolvers<void>()
  makings.gate = gate.promise
  const body = { refuse: true }
  const all = [post('/api/streamed', { body }), post('/api/streamed', { body, on: 1 })]
  await until(async () => (await claims()) === 1)
  gate.resolve()
  for (const one of await Promise.all(all)) t.equal(await codeOf(one), 'session_busy')
  t.equal(await claims(), 0)
})

t.test('a first try that died is taken over when its lease ends', async (t) => {
  const { makings, crash, post } = await start(t)
  await crash('/api/streamed', 300)
  const answers = await Promise.all([1, 2, 3].map(() => post('/api/streamed')))
  t.equal(makings.count, 1)
  t.equal(answers.filter(isReplayed).length, 2)
  await crash('/api/plain', 300)
  t.equal(await codeOf(await post('/api/plain')), 'idempotency_in_progress')
  await until(async () => (await post('/api/plain')).status === 201)
  t.equal(makings.count, 2)
})

t.test('a client that leaves while it waits neither creates nor keeps the key', async (t) => {
  const { makings, gateway, claims, crash, post } = await start(t)
  await crash('/api/streamed', 500)
  const leaving = new AbortController()
  const waiting = post('/api/streamed', { signal: leaving.signal })
  await until(() => makings.come === 1)
  leaving.abort()
  await t.rejects(waiting)
  await until(async () => (await claims()) === 0)
  await gateway.close()
  t.equal(makings.count, 0)
})

t.test('the end of a drain ends the wait', async (t) => {
  const { makings, gateway, crash, post } = await start(t)
  await crash('/api/streamed', 9000)
  const waiting = post('/api/streamed')
  await until(() => makings.come === 1)
  const closing = gateway.close()
  t.equal(await codeOf(await waiting), 'server_draining')
  await closing
})

t.test('only a request with a good key learns of a claim', async (t) => {
  const { makings, gateway, apiKey, claims, post } = await start(t)
  for (const path of ['/api/plain', '/api/streamed', '/api/paid']) {
    t.equal((await post(path)).status, 201)
  }
  const [one] = await gateway.gateway.accounts.listKeys(parseKey(apiKey)?.ref ?? '')
  await gateway.gateway.accounts.revokeKey(one?.id ?? '')
  for (const path of ['/api/plain', '/api/streamed', '/api/paid', '/api/other']) {
    for (const body of [{}, { other: 1 }]) {
      const refused = await post(path, { body })
      t.same(await refusedWith(refused), [401, 'api_key_revoked'], path)
      t.equal(isReplayed(refused), false)
    }
  }
  t.equal(await claims(), 3, 'and a bad key leaves no claim')
  t.equal(makings.count, 3)
})

t.test('a malformed key is refused where something is created, else ignored', async (t) => {
  const { gateway, apiKey, claims, post } = await start(t)
  for (const key of ['a b', 'a'.repeat(256)]) {
    const refused = await post('/api/plain', { key })
    t.same(await refusedWith(refused), [400, 'invalid_parameter'])
  }
  t.equal(await codeOf(await post('/api/plain', { key: 'a b', bearer: 'sk' })), 'invalid_api_key')
  t.equal(await claims(), 0)
  const headers = { authorization: `Bearer ${apiKey}`, 'idempotency-key': 'a b' }
  const ignored = await fetch(`${gateway.url}/api/billing/balance`, { headers })
  t.equal(ignored.status, 200)
})
