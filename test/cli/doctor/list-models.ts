// src/cli/doctor/list-models.ts against scripted backends, and against lists of real servers.

import { createServer } from 'node:https'
import t from 'tap'
import type { Test } from 'tap'
import { listModels } from '../../../src/cli/doctor/list-models.ts'
import { startBackend } from '../../fixtures/backend.ts'
import type { Script } from '../../fixtures/backend.ts'
import { bytes, failing, json, replay, silent } from '../../fixtures/backend-scripts.ts'
import { certificate } from '../../fixtures/certificate.ts'
import { listenOn } from '../../fixtures/listen.ts'
import { routeTo } from '../../fixtures/route.ts'

const { signal } = new AbortController()

async function listed(t: Test, script: Script, more?: Parameters<typeof routeTo>[2]) {
  const backend = await startBackend(t, script)
  return { backend, outcome: await listModels(await routeTo(t, backend.url, more), signal) }
}

const list = (...ids: readonly string[]) => json({ data: ids.map((id) => ({ id })) })

t.test('a listed model is ok; GET /models has the key and the headers of a request', async (t) => {
  const target = 'model: gpt, key: sk-1, key_header: api-key, headers: {x-team: chat}'
  const { backend, outcome } = await listed(t, list('other', 'gpt'), { target })
  t.match(outcome, { verdict: 'ok', detail: 'gpt is listed' })
  const [asked] = backend.requests
  t.match(asked, { method: 'GET', path: '/v1/models' })
  t.match(asked?.headers, { 'api-key': 'sk-1', 'x-team': 'chat', host: /^127/ })
  t.notOk(asked?.headers.authorization)
})

t.test("the query of the target's URL stays after the path", async (t) => {
  const backend = await startBackend(t, list('m'))
  const route = await routeTo(t, `${backend.url}/?api-version=1`)
  t.match(await listModels(route, signal), { verdict: 'ok' })
  t.equal(backend.requests[0]?.path, '/v1/models?api-version=1')
})

t.test('another list, no list, and no such route are warnings', async (t) => {
  const target = 'model: gpt'
  const answers = [
    [list('a', 'b'), /^gpt is not among the 2 that are listed: a, b$/],
    [list(...'abcdef'), /: a, b, c, d, e, …$/],
    [list(), /^gpt is not among the 0/],
    [json({ data: 'x' }), /no list/],
    [bytes('{'), /no list/],
    [failing(404), /^404/],
    [failing(500), /^500: scripted/],
  ] as const
  for (const [script, detail] of answers) {
    t.match((await listed(t, script, { target })).outcome, { verdict: 'warn', detail })
  }
})

t.test('a context_window below what the backend tells is a warning', async (t) => {
  const entries = [
    { id: 'gpt', max_model_len: 32_768 }, // vLLM
    { id: 'gpt', meta: { n_ctx: 32_768, n_ctx_train: 131_072 } }, // llama.cpp
    { id: 'gpt', context_length: 32_768 }, // OpenRouter
  ]
  const target = 'model: gpt'
  const judged = async (entry: object, model: string) => {
    const answer = json({ data: [{ id: 'other', max_model_len: 99_999 }, entry] })
    return (await listed(t, answer, { target, model })).outcome
  }
  for (const entry of entries) {
    const low = await judged(entry, 'context_window: 4096')
    t.match(low, {
      verdict: 'warn',
      detail: /context of 32768.*context_window is 4096.*not charged/,
    })
    for (const model of ['context_window: 32768', 'context_window: 40000', '']) {
      t.match(await judged(entry, model), { verdict: 'ok', detail: 'gpt is listed' }, model)
    }
  }
  for (const strange of [null, -1, '9e9', 1e300, {}]) {
    const entry = { id: 'gpt', max_model_len: strange, meta: strange }
    t.match(await judged(entry, 'context_window: 4096'), { verdict: 'ok' })
  }
})

t.test('a refused key is a failure', async (t) => {
  const { outcome } = await listed(t, failing(401), { target: 'key: sk-1' })
  t.match(outcome, { verdict: 'fail', detail: '401, the key is refused: scripted' })
})

t.test('a backend that is down, or silent, ends by its error or its signal', async (t) => {
  const backend = await startBackend(t, silent)
  const route = await routeTo(t, backend.url)
  const stop = new AbortController()
  const asking = listModels(route, stop.signal)
  const rejected = t.rejects(asking, { name: 'AbortError' })
  await backend.request(0)
  stop.abort()
  await rejected
  await backend.stop()
  await t.rejects(listModels(route, signal), { code: 'ECONNREFUSED' })
})

t.test("over TLS the target's own authority is trusted, and no other", async (t) => {
  const server = createServer({ cert: certificate.cert, key: certificate.key }, (_, res) => {
    res.end('{"data":[{"id":"m"}]}')
  })
  const { port } = await listenOn(t, server)
  const url = `https://localhost:${port}/v1`
  const trusted = await routeTo(t, url, { target: `ca: "${certificate.certPath}"` })
  t.match(await listModels(trusted, signal), { verdict: 'ok' })
  const stranger = await routeTo(t, url)
  await t.rejects(listModels(stranger, signal), { code: /SELF_SIGNED|UNABLE/ })
})

const captures = ['llama-models', 'llamapy-models', 'ollama-models', 'tf-unpinned-models']
for (const name of captures) {
  t.test(`${name} is a list`, async (t) => {
    const { outcome } = await listed(t, replay(`${name}.http`))
    t.match(outcome, { verdict: 'warn', detail: /^m is not among the \d+ that are listed: \S/ })
  })
}

t.test('tf-models has no list, which is no failure', async (t) => {
  t.match((await listed(t, replay('tf-models.http'))).outcome, { verdict: 'warn', detail: /^500/ })
})
