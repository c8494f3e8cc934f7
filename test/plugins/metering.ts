// What a request holds and what it is charged, for all ways in which it can end (docs/money.md, promises 4 and 5).

import { mock } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import type { Script } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { failing, json, reset, silent } from '../fixtures/backend-scripts.ts'
import { chatPath, hi } from '../fixtures/chat-path.ts'
import { Gate } from '../fixtures/gate.ts'
import { codeOf, startGateway } from '../fixtures/gateway.ts'
import type { Account, InProcess } from '../fixtures/gateway.ts'
import { Reading, ask, balanceOf, chargesOf, differencesOf } from '../fixtures/money.ts'
import { spy } from '../fixtures/spy.ts'
import { until } from '../fixtures/until.ts'

async function start(t: Test, script: Script, price: string) {
  const backend = await startBackend(t, script)
  const yaml = `models: { m: { targets: [{ url: '${backend.url}' }], on_leave: abort, price: { ${price} } } }`
  return { backend, gateway: await startGateway(t, { yaml }) }
}

/** A field of the body that the backend got. */
const sent = (body: Buffer | undefined, field: string) =>
  (JSON.parse(body?.toString() ?? '{}') as Record<string, unknown>)[field]

/** A request whose client can be made to leave. */
function leaving(gateway: InProcess, { key }: Account, body: object) {
  const client = new AbortController()
  const answer = gateway.call('/v1/chat', key, body, client.signal)
  return { answer, leave: () => client.abort() }
}

for (const isStream of [true, false]) {
  const what = isStream ? 'streamed' : 'whole'
  t.test(`${what}: every price counts, to the millionth, rounded up once`, async (t) => {
    const script = chat({ chunks: 4, cachedTokens: 1 })
    const price = 'input: 0.3, output: 1.1, cached_input: 0.000001, request: 2'
    const { backend, gateway } = await start(t, script, price)
    const account = await gateway.account(1000)
    await (await gateway.call('/v1/chat', account.key, ask(20, isStream))).text()
    const fresh = backend.served.prompt - 1
    const cost = Math.ceil(2 + fresh * 0.3 + 0.000001 + 4 * 1.1)
    t.match(await chargesOf(gateway, account), [
      {
        amount: -cost,
        balance_after: 1000 - cost,
        model: 'm',
        estimated: false,
        usage: { prompt_tokens: fresh + 1, completion_tokens: 4, cached_tokens: 1 },
      },
    ])
    t.match(await balanceOf(gateway, account), { balance: 1000 - cost, reserved: 0 })
  })
}

t.test(
  'the log tells of a report that is not believed, with its target and all numbers',
  async (t) => {
    const usage = { prompt_tokens: 70_000, completion_tokens: 1_000_000, total_tokens: 1_070_000 }
    const lie = json({
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
      usage,
    })
    const { gateway } = await start(t, lie, 'input: 1, output: 3')
    const account = await gateway.account(1_000_000)
    const answer = await gateway.call('/v1/chat', account.key, ask(20, false))
    await answer.text()
    const [charge] = await chargesOf(gateway, account)
    const { prompt_tokens: prompt = 0, completion_tokens: completion = 0 } = charge?.usage ?? {}
    t.equal(completion, 2 * 20 + 64)
    t.equal(charge?.amount, -(prompt + 3 * completion))
    const lines = gateway.log.map((line) => JSON.parse(line) as Record<string, unknown>)
    const told = lines.filter(({ msg }) => /reported more than its request can/.test(String(msg)))
    t.match(told, [
      {
        level: 'warn',
        request_id: answer.headers.get('x-request-id'),
        account: account.id,
        key: /^key_/,
        model: 'm',
        target: '1',
        reported_prompt_tokens: 70_000,
        reported_completion_tokens: 1_000_000,
        prompt_tokens: prompt,
        completion_tokens: completion,
        cost: prompt + 3 * completion,
        not_charged_balance_tokens: charge?.implausible,
      },
    ])
    t.equal(told.length, 1)
    t.equal(charge?.implausible, 70_000 - prompt + 3 * (1_000_000 - completion))
  },
)

t.test('less than the prompt and the least output is refused before the backend', async (t) => {
  const { backend, gateway } = await start(t, chat(), 'input: 0, output: 1')
  const account = await gateway.account(15)
  const answer = await gateway.call('/v1/chat', account.key, ask(100, true))
  t.equal(answer.status, 402)
  t.equal(answer.headers.get('x-should-retry'), 'false')
  t.equal(await codeOf(answer), 'insufficient_balance')
  t.equal(backend.requests.length, 0)
  t.match(await balanceOf(gateway, account), { balance: 15, reserved: 0 })
  const modest = await gateway.call('/v1/chat', account.key, ask(15, false))
  t.equal(modest.status, 200, 'who wants less than the least output may have it')
})

t.test('the balance limits the output, so the last token can be spent', async (t) => {
  const { backend, gateway } = await start(t, chat({ chunks: 100 }), 'input: 0, output: 2')
  const account = await gateway.account(61)
  const text = await (await gateway.call('/v1/chat', account.key, ask(100, true))).text()
  t.match(text, /"finish_reason":"length"/)
  t.equal(sent(backend.requests[0]?.body, 'max_tokens'), 30)
  t.match(await balanceOf(gateway, account), { balance: 1, reserved: 0 })
})

t.test('the least output is that of all choices', async (t) => {
  const { backend, gateway } = await start(t, chat(), 'input: 0, output: 1')
  const account = await gateway.account(31)
  const body = { ...ask(100, false), n: 2 }
  t.equal(await codeOf(await gateway.call('/v1/chat', account.key, body)), 'insufficient_balance')
  t.equal(backend.requests.length, 0)
  const richer = await gateway.account(32)
  t.equal((await gateway.call('/v1/chat', richer.key, body)).status, 200)
  t.equal(sent(backend.requests[0]?.body, 'max_tokens'), 16)
})

t.test('choices share the output that the balance affords', async (t) => {
  const { backend, gateway } = await start(
    t,
    chat({ chunks: 100, text: () => ' a' }),
    'input: 0, output: 1',
  )
  const account = await gateway.account(61)
  const body = { ...ask(100, true), n: 2 }
  await (await gateway.call('/v1/chat', account.key, body)).text()
  t.equal(sent(backend.requests[0]?.body, 'max_tokens'), 30)
  t.match(await balanceOf(gateway, account), { balance: 1, reserved: 0 })
})

t.test('a backend that passes its bound is paid up to the balance; the rest is owed', async (t) => {
  const script = chat({ chunks: 30, ignoreMaxTokens: true })
  const { gateway } = await start(t, script, 'input: 0, output: 1')
  const account = await gateway.account(20)
  await (await gateway.call('/v1/chat', account.key, ask(100, true))).text()
  t.match(await chargesOf(gateway, account), [{ amount: -20, owed: 10, balance_after: 0 }])
  t.match(await balanceOf(gateway, account), { balance: 0, reserved: 0, owed: 10 })
  t.same(await differencesOf(gateway), [])
})

t.test('leaving in mid-stream costs what was generated, and the prompt', async (t) => {
  const gate = new Gate()
  const { backend, gateway } = await start(t, chat({ chunks: 50, gate }), 'input: 1, output: 1')
  const account = await gateway.account(1000)
  const { answer, leave } = leaving(gateway, account, ask(100, true))
  gate.next(6)
  const reading = new Reading(await answer)
  await reading.until('w4 ')
  leave()
  await backend.requests[0]?.closed
  await until(async () => (await balanceOf(gateway, account)).reserved === 0)
  const [charge] = await chargesOf(gateway, account)
  const { prompt_tokens: prompt = 0, completion_tokens: completion = 0 } = charge?.usage ?? {}
  t.equal(charge?.estimated, true)
  t.ok(prompt > 0, 'the prompt')
  t.ok(completion >= 5 && completion < 50, 'what was generated')
  t.equal(charge?.amount, -(prompt + completion))
})

t.test('leaving between the finish and the usage costs what the backend reports', async (t) => {
  const gate = new Gate()
  const left = Promise.withResolvers<void>()
  const {
    backend,
    gate: gateway,
    id,
    key,
    spent,
    leaving: leave,
  } = await chatPath(t, {
    ownPlugins: [
      spy(({ route, signal }) => {
        if (route.metered) signal.addEventListener('abort', () => left.resolve())
        return {}
      }),
    ],
  })
  backend.on(chat({ chunks: 4, gate, cachedTokens: 1 }))
  const client = leave({ ...hi, stream: true })
  gate.next(6)
  const reading = new Reading(await client.answer)
  await reading.until('"finish_reason":"')
  client.leave()
  await left.promise
  gate.open()
  t.ok((await spent()) > 0)
  const charges = await chargesOf(gateway, { id, key })
  const usage = { completion_tokens: 4, prompt_tokens: backend.served.prompt, cached_tokens: 1 }
  t.match(charges, [{ estimated: false, usage }])
})

/** A path on which a prompt is counted so. */
const counting = (t: Test, countPrompt: () => Promise<number>) =>
  chatPath(t, {
    ownPlugins: [
      spy((x) => ({
        event() {
          if (x.want) x.want = { ...x.want, countPrompt }
        },
      })),
    ],
  })

t.test('a count that takes longer than 10 s is waited for, and told', async (t) => {
  t.teardown(() => mock.timers.reset())
  const path = await counting(t, async () => {
    // Called in `done`, whose time begins when this first waits.
    mock.timers.enable({ apis: ['setTimeout'] })
    await turn()
    mock.timers.tick(10_000)
    mock.timers.reset()
    await turn()
    return 7
  })
  path.backend.on(chat({ chunks: 6, usage: 'never' }))
  t.match(await (await path.stream()).text(), /\[DONE\]/)
  const spent = await path.spent()
  const log = path.gate.log.join('')
  t.match(log, new RegExp(`"cost":${spent},`))
  t.notMatch(log, /"plugin":"metering"/)
})

t.test('what a closing ledger has charged is told, not what is counted after it', async (t) => {
  let closed: Promise<void> | undefined
  const path = await counting(t, async () => {
    await (closed ??= path.gate.gateway.ledger.close())
    return 20
  })
  path.backend.on(chat({ chunks: 6, usage: 'never' }))
  t.match(await (await path.stream()).text(), /\[DONE\]/)
  const [charge] = await chargesOf(path.gate, path)
  t.ok(charge && charge.amount < 0)
  t.not(charge?.usage?.prompt_tokens, 20)
  t.match(path.gate.log.join(''), new RegExp(`"cost":${-(charge?.amount ?? 0)},`))
})

t.test('usage that cannot be counted is charged, and told, by the last checkpoint', async (t) => {
  const path = await counting(t, () => Promise.reject(new Error('no')))
  path.backend.on(chat({ chunks: 6, usage: 'never' }))
  t.match(await (await path.stream()).text(), /\[DONE\]/)
  const spent = await path.spent()
  t.ok(spent >= 6)
  t.match(await chargesOf(path.gate, path), [{ usage: { completion_tokens: 6 } }])
  const log = path.gate.log.join('')
  t.match(log, new RegExp(`"cost":${spent},`))
  t.match(log, /"message":"no".*"plugin":"metering"/)
})

for (const isStream of [true, false]) {
  const what = isStream ? 'a stream' : 'a whole answer'
  t.test(`leaving ${what} before the first token costs the prompt`, async (t) => {
    const { backend, gateway } = await start(t, silent, 'input: 1, output: 1')
    const account = await gateway.account(1000)
    const { answer, leave } = leaving(gateway, account, ask(100, isStream))
    const { closed } = await backend.request(0)
    leave()
    await t.rejects(answer, { name: 'AbortError' })
    await closed
    await until(async () => (await balanceOf(gateway, account)).reserved === 0)
    const [charge] = await chargesOf(gateway, account)
    t.match(charge, { estimated: true, usage: { completion_tokens: 0 } })
    t.equal(charge?.amount, -(charge?.usage?.prompt_tokens ?? 0))
    t.ok((charge?.usage?.prompt_tokens ?? 0) > 0)
  })
}

for (const [what, script] of [
  ['resets the connection', reset],
  ['answers 500', failing(500)],
  ['answers 401', failing(401)],
  ['refuses the request', failing(400)],
  ['is cut before any content', chat({ chunks: 0, cut: true })],
] as const) {
  t.test(`a backend that ${what} costs nothing, the price of a request included`, async (t) => {
    const { gateway } = await start(t, script, 'input: 1, output: 1, request: 5')
    const account = await gateway.account(1000)
    await (await gateway.call('/v1/chat', account.key, ask(100, true))).text()
    t.match(await balanceOf(gateway, account), { balance: 1000, reserved: 0 })
    t.same(await chargesOf(gateway, account), [])
  })
}

t.test('a backend that is cut after content is paid for it, by our count', async (t) => {
  const script = chat({ chunks: 6, cut: true })
  const { gateway } = await start(t, script, 'input: 0, output: 1')
  const account = await gateway.account(1000)
  const text = await (await gateway.call('/v1/chat', account.key, ask(100, true))).text()
  t.match(text, /"code":"upstream_incomplete"/)
  t.notMatch(text, /\[DONE\]/)
  const [charge] = await chargesOf(gateway, account)
  t.equal(charge?.estimated, true)
  t.ok((charge?.usage?.completion_tokens ?? 0) >= 6)
  t.equal((await balanceOf(gateway, account)).reserved, 0)
})

t.test('a backend that reports no usage is counted, and the transaction says so', async (t) => {
  const { gateway } = await start(t, chat({ chunks: 6, usage: 'never' }), 'input: 1, output: 1')
  const account = await gateway.account(1000)
  for (const isStream of [true, false]) {
    await (await gateway.call('/v1/chat', account.key, ask(100, isStream))).text()
  }
  const charges = await chargesOf(gateway, account)
  t.equal(charges.length, 2)
  for (const { amount, estimated, usage } of charges) {
    t.equal(estimated, true)
    t.equal(amount, -(usage?.total_tokens ?? 0))
    t.ok((usage?.completion_tokens ?? 0) >= 6)
  }
})

t.test('an unknown model is named to good keys alone, and holds nothing', async (t) => {
  const { gateway } = await start(t, chat(), 'input: 1, output: 1')
  const account = await gateway.account(1000)
  const body = { ...ask(100, true), model: 'nobody' }
  t.equal(await codeOf(await gateway.call('/v1/chat', account.key, body)), 'model_not_found')
  t.equal((await balanceOf(gateway, account)).reserved, 0)
  const { keys } = { keys: await gateway.admin('GET', `accounts/${account.id}/keys`) }
  const [key] = ((await keys.json()) as { data: { id: string }[] }).data
  await gateway.admin('DELETE', `keys/${key?.id}`)
  t.equal(await codeOf(await gateway.call('/v1/chat', account.key, body)), 'api_key_revoked')
})
