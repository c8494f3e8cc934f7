// Shadow mode (`metering.enforce: false`): a company puts the gateway in front of customers it already has. All is
// counted, nobody is refused, metrics and log say who would have been; then the operator switches over.

import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import type { Script } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { Gate } from '../fixtures/gate.ts'
import { refusedWith, startGateway } from '../fixtures/gateway.ts'
import type { Account, InProcess } from '../fixtures/gateway.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { Reading, ask, balanceOf, chargesOf, differencesOf } from '../fixtures/money.ts'
import { pick } from '../fixtures/pick.ts'
import { until } from '../fixtures/until.ts'
import { withinOneMinute } from '../fixtures/windows.ts'

interface Setting {
  readonly script?: Script
  readonly plan?: string
  readonly metering?: string
}

const modelsAt = (url: string) =>
  `models: { m: { targets: [{ url: '${url}' }], price: { input: 0, output: 1 } }, other: { targets: [{ url: '${url}' }] } }`

const yamlFor = (url: string, { plan = '', metering = 'enforce: false' }: Setting = {}) =>
  [
    modelsAt(url),
    `plans: { default: { ${plan} } }`,
    `plugins: { metering: { ${metering} } }`,
    'log: { level: info }',
  ].join('\n')

async function start(t: Test, setting: Setting = {}) {
  const backend = await startBackend(t, setting.script ?? chat({ chunks: 30, text: () => ' a' }))
  const gateway = await startGateway(t, { yaml: yamlFor(backend.url, setting) })
  return { backend, gateway }
}

const words = (text: string) => text.split('"content":" a"').length - 1

/** The codes that were noted, with how often. */
async function noted({ adminUrl }: InProcess): Promise<Readonly<Record<string, number>>> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text()
  const samples = text.matchAll(/^tollgate_would_refuse_total\{code="(\w+)"\} (\d+)$/gm)
  return Object.fromEntries([...samples].map(([, code = '', count]) => [code, Number(count)]))
}

/** What the log lines of an account's requests say. */
const loggedOf = ({ log }: InProcess, { id }: Account) =>
  log
    .map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>)
    .filter(({ msg, account, model }) => msg === 'request' && account === id && model === 'm')
    .map(({ would_refuse, status, code }) => ({ would_refuse, status, code }))

const settled = (gateway: InProcess, account: Account) =>
  until(async () => (await balanceOf(gateway, account)).reserved === 0)

for (const metering of ['enforce: false', 'enforce: false, hold: { mode: sliced, slice: 64 }']) {
  t.test(`without any money all is served, and nothing is owed (${metering})`, async (t) => {
    const { backend, gateway } = await start(t, { metering })
    const account = await gateway.account(0)
    const answers = [
      await gateway.call('/v1/chat', account.key, ask(100, true)),
      await gateway.call('/v1/chat', account.key, ask(100, false)),
    ]
    t.same(pick(answers, 'status'), [200, 200])
    const [stream = '', whole = ''] = await Promise.all(answers.map((answer) => answer.text()))
    t.equal(words(stream), 30)
    t.match(stream, /"finish_reason":"stop".*\n\n(.*\n)?data: \[DONE\]\n\n$/s)
    t.match(JSON.parse(whole), { usage: { completion_tokens: 30 } })
    const bounds = backend.requests.map(({ body }) => JSON.parse(body.toString()) as object)
    t.match(bounds, [{ max_tokens: 100 }, { max_tokens: 100 }], 'no bound is lowered')
    await settled(gateway, account)
    t.match(await chargesOf(gateway, account), [
      { amount: 0, waived: 30, balance_after: 0 },
      { amount: 0, waived: 30, balance_after: 0 },
    ])
    t.match(await balanceOf(gateway, account), { balance: 0, owed: 0, spent: 0 })
    t.same(await noted(gateway), { insufficient_balance: 2 })
    const line = { would_refuse: 'insufficient_balance', status: 200, code: undefined }
    t.same(loggedOf(gateway, account), [line, line])
    t.same(await differencesOf(gateway), [])
  })

  t.test(`money that runs out stops nothing, and is spent to the last (${metering})`, async (t) => {
    const script = chat({ chunks: 300, text: () => ' a' })
    const { backend, gateway } = await start(t, { script, metering })
    const account = await gateway.account(100)
    const answer = await gateway.call('/v1/chat', account.key, ask(400, true))
    const text = await answer.text()
    t.equal(words(text), 300)
    t.match(text, /"finish_reason":"stop"/)
    t.match(JSON.parse(backend.requests[0]?.body.toString() ?? ''), { max_tokens: 400 })
    await settled(gateway, account)
    const charges = await chargesOf(gateway, account)
    t.match(charges, [{ amount: -100, waived: 200 }])
    t.notOk(charges.some(({ cut, owed }) => cut ?? owed))
    t.match(await balanceOf(gateway, account), { balance: 0, owed: 0 })
    t.match(loggedOf(gateway, account), [{ would_refuse: 'insufficient_balance' }])
    t.same(await differencesOf(gateway), [])
  })
}

t.test("a plan's limits refuse nobody; the headers tell what is left of them", async (t) => {
  const plan = 'requests_per_minute: 2, tokens_per_minute: 100000'
  const { gateway } = await start(t, { plan })
  const { account, answers, free } = await withinOneMinute(async () => {
    const account = await gateway.account(10_000)
    const call = () => gateway.call('/v1/chat', account.key, ask(5, false))
    const look = () => gateway.call('/api/billing/balance', account.key)
    const answers = [await call(), await call(), await call(), await call()]
    return { account, answers, free: [await look(), await look(), await look()] }
  })
  t.same(pick(answers, 'status'), [200, 200, 200, 200])
  t.same(pick(free, 'status'), [200, 200, 200])
  const left = (list: readonly Response[]) =>
    list.map(({ headers }) => headers.get('x-ratelimit-remaining-requests'))
  t.same(left(answers), ['1', '0', '0', '0'])
  t.same(left(free), ['1', '0', '0'])
  for (const answer of answers) t.equal(answer.headers.get('retry-after'), null)
  for (const answer of answers) await answer.text()
  const notes = loggedOf(gateway, account).map(({ would_refuse }) => would_refuse)
  t.same(notes, [undefined, undefined, 'rate_limit_exceeded', 'rate_limit_exceeded'])
  t.ok(((await noted(gateway))['rate_limit_exceeded'] ?? 0) >= 3)
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text()
  t.notMatch(text, /^tollgate_rejections_total\{/m, 'they are no refusals')
})

t.test('concurrency, and a prompt above a minute of tokens, refuse nobody', async (t) => {
  const gate = new Gate()
  const script = chat({ gate })
  const plan = 'concurrency: 1, tokens_per_minute: 5'
  const { backend, gateway } = await start(t, { script, plan })
  const account = await gateway.account(10_000)
  const one = gateway.call('/v1/chat', account.key, ask(50, true))
  await backend.request(0)
  const two = gateway.call('/v1/chat', account.key, ask(50, true))
  await backend.request(1)
  gate.open()
  for (const answer of await Promise.all([one, two])) {
    t.equal(answer.status, 200)
    await answer.text()
  }
  await settled(gateway, account)
  const { max_tokens: bound } = JSON.parse(backend.requests[0]?.body.toString() ?? '') as {
    max_tokens: number
  }
  t.equal(bound, 50)
  t.same(await noted(gateway), { invalid_parameter: 2 })
})

t.test('a message of a session is served without money', async (t) => {
  const { gateway } = await start(t, { plan: 'storage_unpaid: 0' })
  const account = await gateway.account(0)
  const made = await gateway.call('/api/chat/sessions', account.key, { model: 'm' })
  t.equal(made.status, 201, 'nor may it store less')
  const { id } = (await made.json()) as { id: string }
  const said = { content: 'Hi', stream: true, max_tokens: 100 }
  const sent = await gateway.call(`/api/chat/sessions/${id}/messages`, account.key, said)
  t.equal(sent.status, 200)
  t.equal(words(await sent.text()), 30)
  t.match(await chargesOf(gateway, account), [{ amount: 0, waived: 30, session_id: id }])
  t.match(await balanceOf(gateway, account), { balance: 0, owed: 0, reserved: 0 })
})

t.test('wrong keys, other models and suspended accounts are still refused', async (t) => {
  const { gateway } = await start(t)
  const account = await gateway.account(0)
  const { key: narrow } = await gateway.keyFor(account.id, { models: ['other'] })
  const { key: billing } = await gateway.keyFor(account.id, { scopes: ['billing'] })
  const call = (key: string) => gateway.call('/v1/chat', key, ask(5, false))
  t.same(await refusedWith(await call(`${account.key.slice(0, -1)}_`)), [401, 'invalid_api_key'])
  t.same(await refusedWith(await call(narrow)), [403, 'model_not_allowed'])
  t.same(await refusedWith(await call(billing)), [403, 'insufficient_scope'])
  await gateway.admin('PATCH', `accounts/${account.id}`, { status: 'suspended' })
  t.same(await refusedWith(await call(account.key)), [403, 'account_suspended'])
  t.same(await noted(gateway), {})
})

t.test('switching over by a reload: what runs goes on, nothing is owed from before', async (t) => {
  const gate = new Gate()
  const script = chat({ chunks: 30, text: () => ' a', gate })
  const { backend, gateway } = await start(t, { script })
  const account = await gateway.account(0)
  gate.next(3)
  const running = new Reading(await gateway.call('/v1/chat', account.key, ask(100, true)))
  await running.until('" a"')
  await gateway.rewrite(yamlFor(backend.url, { metering: 'enforce: true' }))
  const changes = await gateway.gateway.reload('test')
  t.match(changes, [{ path: ['plugins', 'metering', 'enforce'], needsRestart: false }])
  const refused = await gateway.call('/v1/chat', account.key, ask(100, true))
  t.same(await refusedWith(refused), [402, 'insufficient_balance'])
  gate.open()
  t.equal(words(await running.end()), 30)
  await settled(gateway, account)
  t.match(await balanceOf(gateway, account), { balance: 0, owed: 0 })
  t.match(await chargesOf(gateway, account), [{ waived: 30 }])
  await gateway.admin('POST', `accounts/${account.id}/topup`, { amount: 100 })
  t.match(await balanceOf(gateway, account), { balance: 100, available: 100 })
  t.equal((await gateway.call('/v1/chat', account.key, ask(100, false))).status, 200)
  t.match(await balanceOf(gateway, account), { balance: 70 })
  t.same(await differencesOf(gateway), [])
})

/** The scripts that one request runs. */
async function scriptsOf(t: Test, metering: string, tokens: number) {
  const { gateway } = await start(t, { metering })
  const { client } = await connectLink(t, gateway.redis.socket)
  const account = await gateway.account(tokens)
  const count = async () => {
    const stats = await client.info('commandstats')
    return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(stats)?.[1] ?? 0)
  }
  const found: number[] = []
  for (let i = 0; i < 5; i++) {
    const before = await count()
    await (await gateway.call('/v1/chat', account.key, ask(40, true))).text()
    found.push((await count()) - before)
  }
  // A checkpoint may fall into one of them.
  return Math.min(...found)
}

t.test('shadow mode asks Redis no more often, with money or without', async (t) => {
  t.equal(await scriptsOf(t, 'enforce: true', 10_000), 2)
  t.equal(await scriptsOf(t, 'enforce: false', 10_000), 2)
  t.equal(await scriptsOf(t, 'enforce: false', 0), 2)
  const sliced = 'enforce: false, hold: { mode: sliced, slice: 64 }'
  t.equal(await scriptsOf(t, sliced, 0), 2)
})
