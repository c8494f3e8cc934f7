import { Readable } from 'node:stream'
import { mock } from 'node:test'
import t from 'tap'
import { GatewayError } from '../src/errors.ts'
import type { ErrorCode } from '../src/errors.ts'
import type { Answer, Exchange, Hooks, Outcome, Route, Serving } from '../src/exchange.ts'
import { ClientLeft } from '../src/http/body.ts'
import { live } from '../src/lifecycle.ts'
import type { NamedHooks, Wire } from '../src/lifecycle.ts'
import { startBackend } from './fixtures/backend.ts'
import { startGateway } from './fixtures/gateway.ts'

interface Life {
  /** The calls of hooks, in order. */
  readonly seen: readonly string[]
  readonly outcomes: readonly Outcome[]
  readonly failed: readonly string[]
}

interface Setting {
  readonly hooks: Readonly<Record<string, Hooks>>
  readonly serve?: Serving['serve']
  readonly readBody?: Wire['readBody']
  /** No answer is sent: the client leaves first. */
  readonly leaves?: boolean
  /** `later`: the settlement is sent a turn after `done`. */
  readonly settles?: 'at once' | 'later'
}

const answer: Answer = { status: 200, body: 'served' }

/** Runs one request through `live`, and records all calls of its hooks. */
async function run({ hooks, ...rest }: Setting): Promise<Life> {
  const seen: string[] = []
  const outcomes: Outcome[] = []
  const failed: string[] = []
  const serve: Serving['serve'] =
    rest.serve ??
    (async () => {
      seen.push('serve')
      return answer
    })
  const wire: Wire = {
    left: rest.leaves ?? false,
    readBody: rest.readBody ?? (async () => void seen.push('body')),
    send: async (sent) => void seen.push(`send ${sent.status}`),
    sendError: async ({ code }) => void seen.push(`refuse ${code}`),
  }
  const named: NamedHooks[] = Object.entries(hooks).map(([plugin, one]) => ({
    plugin,
    ...one,
    check() {
      seen.push(`${plugin}.check`)
      one.check?.()
    },
    identify() {
      seen.push(`${plugin}.identify`)
      return one.identify?.()
    },
    async admit() {
      seen.push(`${plugin}.admit`)
      await one.admit?.()
    },
    done(outcome) {
      seen.push(`${plugin}.done`)
      outcomes.push(outcome)
      return one.done?.(outcome)
    },
  }))
  const route: Route = {
    method: 'POST',
    path: '/',
    access: 'anybody',
    body: 'json',
    begin: () => ({ serve }),
  }
  const x = exchangeOf(route)
  const settle = () => void (x.written = later().then(() => void seen.push('written')))
  const done = () => (rest.settles === 'later' ? later().then(settle) : settle())
  if (rest.settles) named.push({ plugin: 'settling', done })
  const onHookFailure = (plugin: string, error: unknown) => failed.push(`${plugin}: ${error}`)
  await live(x, wire, { hooks: named, serve, onHookFailure })
  return { seen, outcomes, failed }
}

function exchangeOf(route: Route): Exchange {
  return {
    id: 'req_test',
    route,
    method: route.method,
    path: route.path,
    query: new URLSearchParams(),
    params: {},
    headers: {},
    ip: '127.0.0.1',
    arrivedAt: 0,
    signal: new AbortController().signal,
    replyHeaders: {},
    body: Buffer.alloc(0),
    memory: { take() {}, keep() {}, release() {} },
    forgetBody() {},
    left: new AbortController().signal,
    finishesAlone: false,
    facts: { flushes: 0 },
  }
}

const refuse = (code: ErrorCode) => {
  throw new GatewayError(code)
}

/** Resolves after everything that is due now has run. */
const later = () => new Promise<void>((resolve) => setImmediate(resolve))

t.test('check, body, identify, admit, serve; done runs backwards before the answer', async (t) => {
  const { seen, outcomes } = await run({ hooks: { a: {}, b: {} } })
  t.equal(
    seen.join(' '),
    'a.check b.check body a.identify b.identify a.admit b.admit serve b.done a.done send 200',
  )
  t.match(outcomes, [{ status: 200, complete: true, clientLeft: false }, {}])
})

t.test('the answer waits until the settlement is sent, a refusal too', async (t) => {
  for (const settles of ['at once', 'later'] as const) {
    const { seen } = await run({ hooks: { a: {} }, settles })
    t.same(seen.slice(-3), ['a.done', 'written', 'send 200'])
    const serve = async () => refuse('upstream_error')
    const refused = await run({ hooks: { a: {} }, settles, serve })
    t.same(refused.seen.slice(-3), ['a.done', 'written', 'refuse upstream_error'])
  }
})

t.test('content counts as sent when the client has taken it; one that left has not', async (t) => {
  const serve = async () => ({ status: 206, headers: {}, content: Readable.from([]) })
  const taken = await run({ hooks: { a: {} }, serve })
  t.same(taken.seen.slice(-2), ['send 206', 'a.done'])
  t.match(taken.outcomes, [{ status: 206, complete: true, clientLeft: false }])
  const left = await run({ hooks: { a: {} }, serve, leaves: true })
  t.match(left.outcomes, [{ status: 499, complete: false, clientLeft: true }])
})

t.test('a stream that is only read counts as sent when it was read to its end', async (t) => {
  const serve = async () => ({ status: 200, headers: {}, stream: async () => {} })
  const taken = await run({ hooks: { a: {} }, serve })
  t.same(taken.seen.slice(-2), ['send 200', 'a.done'])
  t.match(taken.outcomes, [{ status: 200, complete: true, clientLeft: false }])
  const left = await run({ hooks: { a: {} }, serve, leaves: true })
  t.match(left.outcomes, [{ status: 499, complete: false, clientLeft: true }])
})

t.test('a refused check costs nothing: no body is read, no other hook is called', async (t) => {
  const { seen, outcomes } = await run({
    hooks: { a: { check: () => refuse('missing_api_key') }, b: {} },
  })
  t.same(seen, ['a.check', 'b.done', 'a.done', 'refuse missing_api_key'])
  t.match(outcomes, [{ status: 401, complete: false, error: { code: 'missing_api_key' } }, {}])
})

t.test(
  'of several refusals the first in plugin order is told, however late it comes',
  async (t) => {
    for (const phase of ['identify', 'admit'] as const) {
      const { seen } = await run({
        hooks: {
          a: { [phase]: () => later().then(() => refuse('invalid_api_key')) },
          b: { [phase]: async () => refuse('insufficient_balance') },
          c: {},
        },
      })
      t.ok(seen.includes(`c.${phase}`), 'all were asked')
      t.equal(seen.at(-1), 'refuse invalid_api_key', phase)
    }
  },
)

t.test('a refusal that needs no Redis is reported first', async (t) => {
  const order: string[] = []
  const { seen } = await run({
    hooks: {
      a: {
        identify: () => later().then(() => refuse('insufficient_scope')),
        done: () => void order.push('done'),
      },
      b: { identify: () => refuse('invalid_parameter') },
      c: { identify: () => later().then(() => void order.push('taken')) },
    },
  })
  t.same(order, ['taken', 'done'], 'the others are still awaited')
  t.equal(seen.at(-1), 'refuse invalid_parameter')
})

t.test('an answer waits until all hooks have ended', async (t) => {
  const order: string[] = []
  const { seen } = await run({
    hooks: {
      a: { admit: async () => refuse('rate_limit_exceeded'), done: () => void order.push('done') },
      b: { admit: () => later().then(() => void order.push('granted')) },
    },
  })
  t.same(order, ['granted', 'done'], 'what was granted meanwhile can be given back')
  t.equal(seen.at(-1), 'refuse rate_limit_exceeded')
})

t.test('identify may answer: then nothing is admitted or served', async (t) => {
  const { seen } = await run({
    hooks: { a: {}, b: { identify: async () => ({ status: 410, body: '' }) } },
  })
  t.same(seen.slice(-3), ['b.done', 'a.done', 'send 410'])
  t.notMatch(seen.join(), /admit|serve/)
})

t.test('when identify has answered, all plugins hear of it, and may refuse', async (t) => {
  const answers = { identify: async () => ({ status: 410, body: '' }) }
  const heard: string[] = []
  const hears = (name: string) => ({ answered: () => void heard.push(name) })
  const { seen } = await run({ hooks: { a: hears('a'), b: answers, c: hears('c') } })
  t.same(heard, ['a', 'c'])
  t.equal(seen.at(-1), 'send 410')
  await run({ hooks: { a: hears('nobody') } })
  t.same(heard, ['a', 'c'], 'not when it is served')
  const refuses = { answered: async () => refuse('rate_limit_exceeded') }
  const refused = await run({ hooks: { a: answers, b: refuses } })
  t.same(refused.seen.slice(-3), ['b.done', 'a.done', 'refuse rate_limit_exceeded'])
})

t.test('an answer goes before the refusals of later plugins, not of earlier ones', async (t) => {
  const answers = { identify: () => later().then(() => ({ status: 410, body: '' })) }
  const refuses = { identify: async () => refuse('invalid_parameter') }
  t.equal((await run({ hooks: { a: answers, b: refuses } })).seen.at(-1), 'send 410')
  const { seen } = await run({ hooks: { a: refuses, b: answers } })
  t.equal(seen.at(-1), 'refuse invalid_parameter')
})

t.test('a done that throws does not prevent the settlement', async (t) => {
  for (const done of [() => refuse('internal_error'), async () => refuse('internal_error')]) {
    const { seen, failed } = await run({ hooks: { a: {}, b: { done }, c: {} } })
    t.same(seen.slice(-4), ['c.done', 'b.done', 'a.done', 'send 200'])
    t.equal(failed.length, 1)
    t.match(failed[0], /^b: GatewayError/)
  }
})

t.test('a done that never ends is no longer waited for after 10 s', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const asked = Promise.withResolvers<void>()
  const settled: string[] = []
  const life = run({
    hooks: {
      a: { done: () => void settled.push('a') },
      b: {
        done() {
          asked.resolve()
          return new Promise(() => {})
        },
      },
    },
  })
  await asked.promise
  mock.timers.tick(9_999)
  await later()
  t.same(settled, [])
  mock.timers.tick(1)
  const { seen, failed } = await life
  t.same(settled, ['a'])
  t.equal(seen.at(-1), 'send 200', 'and the answer goes out')
  t.match(failed, [/^b: Error: done took more than 10000 ms/])
})

t.test('a done that computes is waited for however long it takes', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const computed = Promise.withResolvers<void>()
  const asked = Promise.withResolvers<void>()
  const done = () => {
    asked.resolve()
    return computed.promise
  }
  const life = run({ hooks: { a: { doneEnds: true, done } } })
  await asked.promise
  let hasEnded = false
  void life.then(() => (hasEnded = true))
  mock.timers.tick(60_000)
  await later()
  t.notOk(hasEnded)
  computed.resolve()
  const { seen, failed } = await life
  t.equal(seen.at(-1), 'send 200')
  t.same(failed, [])
})

t.test('done is called once, even if serve has finished by itself', async (t) => {
  const { seen, outcomes } = await run({
    hooks: { a: {} },
    serve: async ({ finish }) => {
      const cut = { clientLeft: false, backendAsked: true, complete: false, cut: true }
      await finish({ status: 200, ...cut })
      await finish({ status: 500, ...cut })
      return refuse('upstream_error')
    },
  })
  t.same(seen.slice(-2), ['a.done', 'refuse upstream_error'])
  t.match(outcomes, [{ status: 200, cut: true }])
})

t.test('a guard may replace the refusal', async (t) => {
  const { seen, outcomes } = await run({
    hooks: {
      a: { refuse: ({ code }) => new GatewayError('rate_limit_exceeded', { message: code }) },
      b: { check: () => refuse('invalid_api_key') },
    },
  })
  t.equal(seen.at(-1), 'refuse rate_limit_exceeded')
  t.match(outcomes[0], { status: 429, error: { message: 'invalid_api_key' } })
})

t.test('an unexpected error is internal_error, and is settled', async (t) => {
  const { seen, outcomes } = await run({
    hooks: { a: {} },
    serve: () => Promise.reject(new TypeError('x')),
  })
  t.same(seen.slice(-2), ['a.done', 'refuse internal_error'])
  t.match(outcomes, [{ status: 500, error: { cause: TypeError } }])
})

t.test('a client that leaves within its request gets no answer, and is settled', async (t) => {
  const readBody = () => Promise.reject(new ClientLeft())
  const { seen, outcomes } = await run({ hooks: { a: {} }, readBody })
  t.same(seen, ['a.check', 'a.done'])
  t.match(outcomes, [{ status: 499, clientLeft: true, complete: false }])
})

t.test('a long body is read only when all plugins know its sender', async (t) => {
  const { seen } = await run({
    hooks: { a: { vouch: async () => refuse('invalid_api_key') } },
    readBody: (_route, vouch) => vouch(),
  })
  t.equal(seen.at(-1), 'refuse invalid_api_key')
})

t.test('route, key, body, key again, balance: refused in this order', async (t) => {
  const backend = await startBackend(t)
  const target = `{ targets: [{ url: '${backend.url}' }] }`
  const gateway = await startGateway(t, { yaml: `models: { m: ${target}, other: ${target} }` })
  const { id, key: poor } = await gateway.account(0)
  const { id: keyId, key: revoked } = await gateway.keyFor(id)
  await gateway.admin('DELETE', `keys/${keyId}`)
  const { key: scoped } = await gateway.keyFor(id, { scopes: ['chat', 'billing', 'files'] })
  const { key: narrow } = await gateway.keyFor(id, { models: ['other'] })
  const made = await gateway.call('/api/chat/sessions', poor, {})
  const messages = `/api/chat/sessions/${((await made.json()) as { id: string }).id}/messages`
  const good = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }
  const bad = '{"model":"m","model":"m"}'
  for (const [path, key, body, code] of [
    ['/v1/none', 'no-key', bad, 'route_not_found'],
    ['/v1/models', 'no-key', bad, 'method_not_allowed'],
    ['/v1/chat', 'no-key', bad, 'invalid_api_key'],
    ['/v1/chat', revoked, bad, 'invalid_json'],
    ['/v1/chat', revoked, { ...good, model: 'none' }, 'api_key_revoked'],
    ['/v1/chat', revoked, good, 'api_key_revoked'],
    ['/v1/chat', poor, { ...good, model: 'none' }, 'model_not_found'],
    ['/v1/chat', poor, good, 'insufficient_balance'],
    ['/api/chat/sessions', revoked, bad, 'invalid_json'],
    ['/api/chat/sessions', revoked, { strange: 1 }, 'unknown_parameter'],
    ['/api/chat/sessions', revoked, {}, 'api_key_revoked'],
    ['/api/chat/sessions/x/messages', revoked, bad, 'invalid_json'],
    ['/api/chat/sessions/x/messages', revoked, {}, 'missing_parameter'],
    ['/api/chat/sessions/x/messages', revoked, { content: 'a' }, 'api_key_revoked'],
    ['/api/chat/sessions/x/messages', scoped, bad, 'invalid_json'],
    ['/api/chat/sessions/x/messages', scoped, { content: 'a' }, 'insufficient_scope'],
    [messages, narrow, { content: 'a', model: 'm' }, 'model_not_allowed'],
    [messages, poor, { content: 'a' }, 'insufficient_balance'],
    ['/api/chat/sessions/x/messages', poor, { content: 'a' }, 'session_not_found'],
  ] as const) {
    const answer = await gateway.call(path, key, body)
    t.match(await answer.json(), { error: { code } }, `${path} ${code}`)
  }
  t.equal(backend.requests.length, 0)
})
