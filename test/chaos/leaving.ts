// What ends of other kinds cost: of a backend that lies, of one that sends too much, of a client that leaves and a gateway
// that stops. All the ways in which leaving would save money: thieves.ts.

import t from 'tap'
import { json, silent, sse } from '../fixtures/backend-scripts.ts'
import { chatPath, hi } from '../fixtures/chat-path.ts'
import { transactionsOf } from '../fixtures/money.ts'

const words = (n: number) => 'word '.repeat(n)

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

t.test('a stream that the gateway ends because of its size is charged', async (t) => {
  const { backend, stream, spent } = await chatPath(t, { yaml: 'limits: { sse_line: 1KiB }' })
  backend.on(
    sse([`data: ${JSON.stringify({ choices: [{ delta: { content: words(2000) } }] })}\n\n`]),
  )
  t.match(await (await stream()).text(), /upstream_error/)
  const charged = await spent()
  t.ok(charged >= 2000 && charged < 2600, `${charged}`)
})

t.test(
  'a stream whose backend sends no stream, or no end of its last event, is charged',
  async (t) => {
    const { backend, stream, spent } = await chatPath(t)
    const usage = { prompt_tokens: 7, completion_tokens: 3000 }
    const choices = [{ index: 0, message: { content: 'x' }, finish_reason: 'stop' }]
    backend.once(json({ choices, usage }))
    const answer = await stream()
    t.equal(answer.status, 502)
    t.equal(answer.headers.get('x-should-retry'), 'false')
    t.equal(await spent(), 3007)
    const piece = { choices: [{ index: 0, delta: { content: 'x' } }] }
    const last = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage }
    backend.once(sse([`data: ${JSON.stringify(piece)}\n\n`, `data: ${JSON.stringify(last)}\n`]))
    t.match(await (await stream()).text(), /upstream_incomplete/)
    t.equal(await spent(), 2 * 3007)
  },
)

t.test('a stream that ends before it has generated anything is free', async (t) => {
  const { backend, stream, spent } = await chatPath(t, { target: 'continuous_usage_stats: true' })
  const choices = [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }]
  const usage = { prompt_tokens: 7, completion_tokens: 0 }
  const role = `data: ${JSON.stringify({ choices, usage })}\n`
  const cuts = ['"ind', '"role"', '"assis', '"finish_reason":n'].map((part) =>
    role.slice(0, role.indexOf(part) + part.length),
  )
  for (const text of [`${role}\n`, role, ...cuts]) {
    backend.once(sse([text]))
    const answer = await stream()
    t.equal(answer.status, 502, text)
    t.equal(answer.headers.get('x-should-retry'), null, text)
    t.equal(await spent(), 0, text)
  }
})

t.test('answers that best_of throws away are counted where no usage says so', async (t) => {
  const model = 'endpoints: [completions]'
  const { backend, ask, spent, leaving } = await chatPath(t, { model })
  const body = { model: 'm', prompt: 'Hi', best_of: 8, max_tokens: 100 }
  const text = words(50)
  backend.once(json({ choices: [{ index: 0, text, finish_reason: 'length' }] }))
  await (await ask(body, '/v1/completions')).text()
  const counted = await spent()
  t.ok(counted >= 8 * 50 && counted < 8 * 60, `${counted}`)
  const usage = { prompt_tokens: 7, completion_tokens: 60 }
  backend.once(json({ choices: [{ index: 0, text, finish_reason: 'length' }], usage }))
  await (await ask(body, '/v1/completions')).text()
  t.equal((await spent()) - counted, 67, 'what is reported is believed')
  const piece = `data: ${JSON.stringify({ choices: [{ index: 0, text }] })}\n\n`
  backend.once(sse([piece], { end: false }))
  const { answer, leave } = leaving({ ...body, stream: true }, '/v1/completions')
  await (await answer).body?.getReader().read()
  leave()
  const left = (await spent()) - counted - 67
  t.ok(left >= 8 * 50 && left < 8 * 60, `${left}`)
})

t.test('a drain also ends answers that nobody waits for', async (t) => {
  const { backend, gate, leaving } = await chatPath(t, {
    yaml: 'drain: 100ms',
    model: 'on_leave: finish',
  })
  backend.on(silent)
  const { answer, leave } = leaving({ ...hi, stream: true })
  const { closed } = await backend.request(0)
  leave()
  await t.rejects(answer)
  await gate.close()
  t.ok(await closed)
})
