// An operator's plugin that does what it must not: the request is refused with its id and its log line, and the gateway goes on.

import t from 'tap'
import { z } from 'zod'
import { GatewayError } from '../../src/errors.ts'
import { answering, json } from '../../src/exchange.ts'
import type { Exchange, Route } from '../../src/exchange.ts'
import type { Plugin, Running } from '../../src/plugin.ts'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { startGateway } from '../fixtures/gateway.ts'
import type { TestGateway } from '../fixtures/gateway.ts'
import { metricOf } from '../fixtures/metric.ts'
import { ask, balanceOf, differencesOf } from '../fixtures/money.ts'

const pluginOf = (running: object): Plugin => ({
  name: 'mine',
  schema: z.strictObject({}),
  setup: () => running as Running,
})

/** Only where the client asks for it, so that the admin API works. */
const only = (hooks: (x: Exchange) => unknown): Plugin =>
  pluginOf({ begin: (x: Exchange): unknown => (x.headers['x-try'] ? hooks(x) : undefined) })

function broken(): void {
  throw new Error('a mistake in a plugin')
}
const later = async () => Promise.reject(new Error('a mistake in a plugin'))

/** What the log says of a request. */
function linesOf({ log }: TestGateway, answer: Response): readonly Line[] {
  const id = answer.headers.get('x-request-id')
  return log.map((line) => JSON.parse(line) as Line).filter((line) => line.request_id === id)
}

type Line = Readonly<Record<string, unknown>>

const mistakes: Readonly<Record<string, Plugin>> = {
  'a begin that throws': only(broken),
  'a begin that is async': only(later),
  'hooks that nobody can add to': only(() => Object.freeze({})),
  'a check that is async': only(() => ({ check: later })),
  'an upstream that is async': only(() => ({ upstream: later })),
  'an event that is async': only(() => ({ event: later })),
}

for (const [name, plugin] of Object.entries(mistakes)) {
  t.test(`${name} refuses the request, and no more`, async (t) => {
    const backend = await startBackend(t, chat({ chunks: 3 }))
    const yaml = `models: { m: { targets: [{ url: '${backend.url}' }] } }`
    const gateway = await startGateway(t, { yaml, ownPlugins: [plugin] })
    const account = await gateway.account(1000)
    const headers = {
      authorization: `Bearer ${account.key}`,
      'content-type': 'application/json',
      'x-try': '1',
    }
    const body = JSON.stringify(ask(10, false))
    const url = `${gateway.url}/v1/chat/completions`
    const answer = await fetch(url, { method: 'POST', headers, body })
    t.equal(answer.status, 500)
    t.match(await answer.json(), { error: { code: 'internal_error' } })
    const [line, ...others] = linesOf(gateway, answer)
    t.match(line, { msg: 'request', status: 500, route: '/v1/chat/completions' })
    t.equal(others.length, 0)
    t.match(gateway.log.join(''), /mine|a mistake in a plugin/)
    t.equal(await metricOf(gateway, 'tollgate_rejections_total{code="internal_error"}'), 1)
    t.match(await balanceOf(gateway, account), { reserved: 0 })
    t.equal((await gateway.call('/v1/models', account.key)).status, 200, 'others are served')
    t.same(await differencesOf(gateway), [])
  })
}

const yaml = 'models: { m: { targets: [demo] } }'

const refuses: Readonly<Record<string, (error: GatewayError) => unknown>> = {
  'that throws': broken,
  'that is async': later,
  'that returns something else': () => ({ status: 200 }),
}

for (const [name, refuse] of Object.entries(refuses)) {
  t.test(`a refuse ${name} leaves the refusal as it is`, async (t) => {
    const gateway = await startGateway(t, { yaml, ownPlugins: [only(() => ({ refuse }))] })
    const answer = await fetch(`${gateway.url}/v1/models`, { headers: { 'x-try': '1' } })
    t.equal(answer.status, 401)
    const lines = linesOf(gateway, answer)
    t.equal(lines.length, 1)
    t.match(lines[0], { status: 401, code: 'missing_api_key' })
  })
}

const route = (begin: () => unknown): Route => ({
  method: 'GET',
  path: '/v1/mine',
  access: 'anybody',
  body: 'none',
  begin: begin as Route['begin'],
})

const begins: readonly (readonly [string, () => unknown])[] = [
  ['throws', broken],
  ['returns nothing', () => undefined],
]

for (const [name, begin] of begins) {
  t.test(`a route whose begin ${name} is 500, with a line in the log`, async (t) => {
    const others = {
      ...route(() => undefined),
      path: '/v1/fine',
      begin: answering(async () => json({})),
    }
    const ownPlugins = [pluginOf({ routes: [route(begin), others] })]
    const gateway = await startGateway(t, { yaml, ownPlugins })
    const answer = await fetch(`${gateway.url}/v1/mine`)
    t.equal(answer.status, 500)
    t.ok(linesOf(gateway, answer).some(({ route }) => route === '/v1/mine'))
    t.equal((await fetch(`${gateway.url}/v1/fine`)).status, 200)
  })
}

function overloaded(): void {
  throw new GatewayError('overloaded')
}

t.test('a begin that refuses has not failed', async (t) => {
  const gateway = await startGateway(t, { yaml, ownPlugins: [only(overloaded)] })
  const { key } = await gateway.account(0)
  const headers = { authorization: `Bearer ${key}`, 'x-try': '1' }
  const answer = await fetch(`${gateway.url}/v1/models`, { headers })
  t.match(await answer.json(), { error: { code: 'overloaded' } })
  t.notMatch(gateway.log.join(''), /a hook failed/)
  t.same(await metricOf(gateway, 'tollgate_hook_errors_total'), NaN)
})

t.test('a refuse may also throw the error that takes its place', async (t) => {
  const ownPlugins = [only(() => ({ refuse: overloaded }))]
  const gateway = await startGateway(t, { yaml, ownPlugins })
  const answer = await fetch(`${gateway.url}/v1/models`, { headers: { 'x-try': '1' } })
  t.match(await answer.json(), { error: { code: 'overloaded' } })
})
