// src/cli/doctor/one-token.ts against scripted backends: each way in which a stream can end, and streams of real
// servers.

import t from 'tap'
import type { Test } from 'tap'
import { askOneToken } from '../../../src/cli/doctor/one-token.ts'
import { startBackend } from '../../fixtures/backend.ts'
import type { Script } from '../../fixtures/backend.ts'
import { chat, endless } from '../../fixtures/backend-model.ts'
import { failing, json, replay, silent, sse } from '../../fixtures/backend-scripts.ts'
import { routeTo } from '../../fixtures/route.ts'

const { signal } = new AbortController()

async function asked(t: Test, script: Script, more?: Parameters<typeof routeTo>[2]) {
  const backend = await startBackend(t, script)
  const outcome = await askOneToken(await routeTo(t, backend.url, more), signal)
  return { backend, outcome }
}

const event = (choice: object) => `data: ${JSON.stringify({ choices: [choice] })}\n\n`
const word = event({ delta: { content: 'Hi' } })
const finish = event({ delta: {}, finish_reason: 'stop' })
const done = 'data: [DONE]\n\n'

t.test('one token comes and is reported: ok, and what it cost', async (t) => {
  const { backend, outcome } = await asked(t, chat())
  t.equal(outcome.verdict, 'ok')
  const whole = /^in \d+ ms, finish_reason length, \[DONE\], usage reported \(\d+ \+ 1\); cost 1 /
  t.match(outcome.detail, whole)
  t.equal(backend.served.completion, 1)
  t.equal(backend.requests.length, 1)
})

t.test('the request is like others: name, bound, usage, key', async (t) => {
  const target = 'model: gpt, key: sk-1, max_tokens_field: max_completion_tokens'
  const { backend } = await asked(t, chat(), { target })
  const body = JSON.parse(backend.requests[0]?.body.toString() ?? '') as unknown
  t.match(body, {
    model: 'gpt',
    stream: true,
    max_completion_tokens: 1,
    stream_options: { include_usage: true },
  })
  t.match(backend.requests[0]?.headers, { authorization: 'Bearer sk-1' })
})

t.test('no usage is a warning, and so are too many tokens', async (t) => {
  const silent = await asked(t, chat({ usage: 'never' }))
  t.match(silent.outcome, { verdict: 'warn', detail: /no usage reported/ })
  const unasked = await asked(t, chat(), { target: 'include_usage: false' })
  t.match(unasked.outcome, { verdict: 'warn', detail: /usage not asked for/ })
  const { backend, outcome } = await asked(t, endless())
  t.match(outcome, { verdict: 'warn', detail: /more than the one token/ })
  await backend.requests[0]?.closed
})

t.test('a report of more tokens than were asked for is told, with both numbers', async (t) => {
  const report = (completion: number) => {
    const usage = { prompt_tokens: 9, completion_tokens: completion }
    const tail = `data: ${JSON.stringify({ choices: [], usage })}\n\n${done}`
    return sse([word, finish, tail])
  }
  for (const [completion, verdict, detail] of [
    [1, 'ok', /usage reported \(9 \+ 1\)/],
    [2, 'warn', /^it reports 2 completion tokens, and max_tokens was 1 \(1 event with content\)/],
    [66, 'warn', /customers are charged for all 66, also beyond their limit/],
    [67, 'fail', /^it reports 67 completion tokens, and max_tokens was 1 /],
    [1_000_000, 'fail', /the gateway believes, and charges, 66 of them at most/],
  ] as const) {
    const { outcome } = await asked(t, report(completion))
    t.match(outcome, { verdict, detail }, `${completion}`)
  }
  const target = 'max_tokens_field: max_completion_tokens'
  const { outcome } = await asked(t, report(5), { target })
  t.match(outcome.detail, /max_completion_tokens was 1/)
})

t.test('a stream that ends before its finish is a failure, however it ends', async (t) => {
  const cases = [
    [chat({ cut: true }), /broke off/],
    [sse([word], { end: 'cut' }), /broke off/],
    [sse([word]), /without a finish_reason/],
    [sse([word, done]), /complete_when: done/],
    [sse([]), /without a finish_reason/],
    [json({ choices: [] }), /without a finish_reason/],
    [sse([`data: {"error":{"message":"no room"}}\n\n`]), /error came in the stream: no room/],
  ] as const
  for (const [script, detail] of cases) {
    t.match((await asked(t, script)).outcome, { verdict: 'fail', detail })
  }
})

t.test('[DONE] is required only for a model with complete_when: done', async (t) => {
  const { outcome } = await asked(t, sse([word, finish]))
  t.match(outcome, { verdict: 'warn', detail: /no \[DONE\]; no usage/ })
  const model = 'complete_when: done'
  t.match((await asked(t, sse([word, done]), { model })).outcome, { verdict: 'warn' })
  t.match((await asked(t, sse([word, finish]), { model })).outcome, {
    verdict: 'fail',
    detail: /without \[DONE\]/,
  })
})

t.test('a stream that stays open after its finish is not waited for', async (t) => {
  const { backend, outcome } = await asked(t, sse([word, finish], { end: false }))
  t.match(outcome, { verdict: 'warn', detail: /finish_reason stop, no \[DONE\]/ })
  await backend.requests[0]?.closed
})

t.test('a refusal is reported with its status and sentence', async (t) => {
  const { outcome } = await asked(t, failing(401), { target: 'key: sk-1' })
  t.match(outcome, { verdict: 'fail', detail: '401, the key is refused: scripted' })
  t.match((await asked(t, failing(503))).outcome, { verdict: 'fail', detail: '503: scripted' })
})

t.test('a silent backend ends by the signal, and its connection with it', async (t) => {
  const backend = await startBackend(t, silent)
  const stop = new AbortController()
  const rejected = t.rejects(askOneToken(await routeTo(t, backend.url), stop.signal))
  const request = await backend.request(0)
  stop.abort()
  await rejected
  await request.closed
})

t.test('a model without chat is not tried', async (t) => {
  const { backend, outcome } = await asked(t, chat(), { model: 'endpoints: [embeddings]' })
  t.match(outcome, { verdict: 'ok', detail: 'not tried: the model serves embeddings, not chat' })
  t.equal(backend.requests.length, 0)
})

t.test('streams of real servers get the right verdict', async (t) => {
  // Recorded with a bound of 16 tokens.
  const verdicts = {
    'llama-stream-usage-on.sse': 'warn: it reports 16',
    'llama-stream-usage-off.sse': 'warn',
    'tf-stream-usage-on.sse': 'warn: it reports 16',
    'llamapy-stream-usage-on.sse': 'warn',
    'ollama-stream-usage-on.sse': 'warn: it reports 16',
    'ollama-runner-killed-midstream.sse': 'fail',
    'tf-stream-err-badstop.sse': 'fail',
    'llama-err-401.http': 'fail',
    'llama-loading.http': 'fail',
  }
  for (const [name, verdict] of Object.entries(verdicts)) {
    const { outcome } = await asked(t, replay(name))
    const told = `${outcome.verdict}: ${outcome.detail}`
    t.equal(told.slice(0, verdict.length), verdict, `${name}: ${told}`)
  }
})
