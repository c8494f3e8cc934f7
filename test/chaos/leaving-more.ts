// Leaving saves no money, in other places: at reranks, when several choices are stopped, when a backend lies, after the
// end.

import t from 'tap'
import type { Exchange } from '../../src/exchange.ts'
import { startBackend } from '../fixtures/backend.ts'
import type { Script } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { json, sse } from '../fixtures/backend-scripts.ts'
import { chatPath, hi } from '../fixtures/chat-path.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { transactionsOf } from '../fixtures/money.ts'
import { spy } from '../fixtures/spy.ts'
import { until } from '../fixtures/until.ts'

const words = (n: number) => 'word '.repeat(n)

t.test('a rerank reads its query once for each document, whoever counts', async (t) => {
  const query = words(1000)
  const documents = Array.from({ length: 400 }, () => words(5))
  const truth = 400 * 1005
  const backend = await startBackend(t, json({ results: [] }))
  const plans = 'plans: { default: { tokens_per_minute: 1000000000 } }'
  const gateway = await startGateway(t, {
    yaml: `models: { m: { targets: [{ url: '${backend.url}' }], endpoints: [rerank] } }\n${plans}`,
  })
  const account = await gateway.account(10_000_000)
  const body = { model: 'm', query, documents }
  const answer = await gateway.call('/v1/rerank', account.key, body)
  t.equal(answer.status, 200)
  const [, charge] = await transactionsOf(gateway, account)
  const charged = -(charge?.amount ?? 0)
  t.comment(`${charged} charged, ${truth} used`)
  t.ok(charged >= truth && charged <= 1.3 * truth, `${charged} for ${truth}`)
  const poor = await gateway.account(100_000)
  const refused = await gateway.call('/v1/rerank', poor.key, body)
  t.equal(refused.status, 402, 'and so does the hold')
})

/** Generates on, although the request sets a limit. */
const endless =
  (path: string, choices: number): Script =>
  async ({ res }) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    while (!res.destroyed) {
      for (let index = 0; index < choices; index++) {
        const said = path === 'chat' ? { delta: { content: ' word' } } : { text: ' word' }
        const chunk = { id: 'c', choices: [{ index, ...said, finish_reason: null }] }
        res.write(`data: ${JSON.stringify(chunk)}\n\n`)
      }
      await new Promise((resolve) => setImmediate(resolve))
    }
  }

const lastChunks = (text: string) =>
  text
    .split('\n\n')
    .filter((frame) => frame.includes('"finish_reason":"length"'))
    .map((frame) => JSON.parse(frame.slice(6)) as { object: string; choices: unknown[] })

for (const price of ['input: 1, output: 1', 'input: 0, output: 0']) {
  t.test(`a runaway is stopped by the limit of the request, at ${price}`, async (t) => {
    const { backend, gate, key } = await chatPath(t, {
      model: `price: { ${price} }, endpoints: [chat, completions], max_output_tokens: 1000`,
    })
    backend.on(endless('chat', 2))
    const several = { ...hi, stream: true, n: 2, max_tokens: 10 }
    const both = lastChunks(await (await gate.call('/v1/chat', key, several)).text())
    t.match(both, [
      {
        object: 'chat.completion.chunk',
        choices: [{ index: 0, delta: {}, finish_reason: 'length' }],
      },
      {
        object: 'chat.completion.chunk',
        choices: [{ index: 1, delta: {}, finish_reason: 'length' }],
      },
    ])
    backend.on(endless('completions', 1))
    const body = { model: 'm', prompt: 'Hi', stream: true, max_tokens: 10 }
    const text = await (await gate.call('/v1/completions', key, body)).text()
    t.match(lastChunks(text), [
      { object: 'text_completion', choices: [{ index: 0, text: '', finish_reason: 'length' }] },
    ])
    t.match(text, /\[DONE\]\n\n$/)
  })
}

t.test('tokens that no backend can have used are not charged', async (t) => {
  const { backend, gate, id, key, ask, spent } = await chatPath(t, { tokens: 1_000_000_000 })
  const usage = { prompt_tokens: 900_000_000, completion_tokens: 900_000_000 }
  const choices = [{ index: 0, message: { content: 'x' }, finish_reason: 'stop' }]
  backend.on(json({ choices, usage }))
  t.equal((await ask({ ...hi, max_tokens: 100 })).status, 200)
  const charged = await spent()
  // One token for each byte plus a template, and twice the requested output plus some.
  t.ok(charged > 264 && charged <= 264 + 4096 + 200, `${charged}`)
  const [, charge] = await transactionsOf(gate, { id, key })
  t.match(charge?.usage, { completion_tokens: 264 })
})

t.test('a prompt is never longer than a configured context window', async (t) => {
  const { backend, ask, spent } = await chatPath(t, { model: 'context_window: 300' })
  const usage = { prompt_tokens: 4000, completion_tokens: 1 }
  const choices = [{ index: 0, message: { content: 'x' }, finish_reason: 'stop' }]
  backend.on(json({ choices, usage }))
  await ask()
  t.equal(await spent(), 301)
})

t.test('leaving after the finish costs what is reported, not what was counted', async (t) => {
  const left = Promise.withResolvers<void>()
  const watch = spy(({ route, signal }) => {
    if (route.metered) signal.addEventListener('abort', () => left.resolve())
  })
  const { backend, leaving, spent } = await chatPath(t, { ownPlugins: [watch] })
  const frame = (value: object) => `data: ${JSON.stringify(value)}\n\n`
  const said = frame({ choices: [{ index: 0, delta: { content: 'a' } }] })
  const finish = frame({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })
  const usage = { prompt_tokens: 5000, completion_tokens: 7 }
  const last = Promise.withResolvers<void>()
  backend.on(async (call) => {
    await sse([said, finish], { end: false })(call)
    await last.promise
    call.res.end(`${frame({ choices: [], usage })}data: [DONE]\n\n`)
  })
  const { answer, leave } = leaving({
    ...hi,
    stream: true,
    messages: [{ role: 'user', content: 'x'.repeat(5000) }],
  })
  const reader = (await answer).body?.getReader()
  let text = ''
  while (!text.includes('stop')) text += new TextDecoder().decode((await reader?.read())?.value)
  leave()
  await left.promise
  last.resolve()
  t.equal(await spent(), 5007)
})

t.test('a stream that the gateway ends because of its size is charged', async (t) => {
  const { backend, stream, spent } = await chatPath(t, { yaml: 'limits: { sse_line: 1KiB }' })
  backend.on(
    sse([`data: ${JSON.stringify({ choices: [{ delta: { content: words(2000) } }] })}\n\n`]),
  )
  t.match(await (await stream()).text(), /upstream_error/)
  const charged = await spent()
  t.ok(charged >= 2000 && charged < 2600, `${charged}`)
})

t.test('a model without on_leave that is read to its end is charged what it served', async (t) => {
  const { backend, leaving, spent } = await chatPath(t)
  backend.on(chat({ chunks: 3 }))
  const { answer } = leaving({ ...hi, stream: true })
  await (await answer).text()
  t.equal(await spent(), backend.served.prompt + backend.served.completion)
})

/** Sends nothing until it is told to. */
function thinking(goOn: Promise<void>): Script {
  return async ({ res }) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.write(
      `data: ${JSON.stringify({ choices: [{ index: 0, delta: { role: 'assistant' } }] })}\n\n`,
    )
    await goOn
    const usage = { prompt_tokens: 5, completion_tokens: 12_000 }
    const end = { choices: [{ index: 0, delta: { content: 'x' }, finish_reason: 'stop' }], usage }
    res.end(`data: ${JSON.stringify(end)}\n\ndata: [DONE]\n\n`)
  }
}

for (const stream of [true, false]) {
  t.test(
    `a client leaves before the first word, ${stream ? 'streamed' : 'whole'}: the answer is read to its end`,
    async (t) => {
      let asked: Exchange | undefined
      const watch = spy((x) => {
        if (x.route.metered) asked = x
      })
      const { backend, leaving, spent } = await chatPath(t, {
        ownPlugins: [watch],
        model: 'hidden_reasoning: true, max_output_tokens: 20000',
      })
      const goOn = Promise.withResolvers<void>()
      const usage = { prompt_tokens: 5, completion_tokens: 12_000 }
      const choices = [{ index: 0, message: { content: 'x' }, finish_reason: 'stop' }]
      backend.on(async (call) => {
        if (stream) return thinking(goOn.promise)(call)
        await goOn.promise
        return json({ choices, usage })(call)
      })
      const { answer, leave } = leaving({ ...hi, stream })
      await backend.request(0)
      leave()
      await t.rejects(answer)
      await until(() => asked?.left.aborted === true)
      goOn.resolve()
      t.equal(await spent(), 12_005)
    },
  )
}

t.test('a drain also ends answers that nobody waits for', async (t) => {
  const { backend, gate, leaving } = await chatPath(t, {
    yaml: 'drain: 100ms',
    model: 'on_leave: finish',
  })
  backend.on(thinking(new Promise(() => undefined)))
  const { answer, leave } = leaving({ ...hi, stream: true })
  const { closed } = await backend.request(0)
  leave()
  await t.rejects(answer)
  await gate.close()
  t.ok(await closed)
})
