// Each endpoint of the table, from outside: where it goes, what it costs, and who gets 404.

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { endpointNames, endpoints, fieldsOf } from '../../src/config/endpoints.ts'
import type { EndpointRow } from '../../src/config/endpoints.ts'
import { json } from '../fixtures/backend-scripts.ts'
import { chatPath, hi } from '../fixtures/chat-path.ts'
import { codeOf } from '../fixtures/gateway.ts'

const all = `endpoints: [${endpointNames.join(', ')}]`

/** Of each endpoint that generates nothing: its body by its row, so that a new row is tried here, too. */
const plain = endpoints.filter(({ generates }) => !generates)

const bodyOf = (row: EndpointRow) => ({
  model: 'm',
  ...Object.fromEntries(fieldsOf(row).map((name) => [name, ['Hi']])),
})

/** As OpenAI and its kind have them: a row that says something else is wrong. */
const known = [
  ['/v1/chat', '/v1/chat/completions', hi, 'messages'],
  ['/v1/chat/completions', '/v1/chat/completions', hi, 'messages'],
  ['/v1/completions', '/v1/completions', { model: 'm', prompt: 'Hi' }, 'prompt'],
  ['/v1/embeddings', '/v1/embeddings', { model: 'm', input: 'Hi' }, 'input'],
  ['/v1/rerank', '/v1/rerank', { model: 'm', query: 'Hi', documents: ['a'] }, 'documents'],
  ['/v1/moderations', '/v1/moderations', { model: 'm', input: 'Hi' }, 'input'],
] as const

/** A new row is tried by what it says. */
const fresh = plain.flatMap((row) =>
  row.routes
    .filter((path) => !known.some(([one]) => one === path))
    .map((path) => [path, `/v1${row.path}`, bodyOf(row), row.required] as const),
)

t.test('README names each route, and other files each endpoint', async (t) => {
  const read = (file: string) => readFile(join(import.meta.dirname, '../..', file), 'utf8')
  const readme = await read('README.md')
  for (const { routes } of endpoints) {
    for (const path of routes) t.ok(readme.includes(`${path}\``), path)
  }
  t.ok((await read('config/examples/full.yaml')).includes(`    ${all}\n`), all)
  for (const page of ['docs/money.md', 'docs/errors.md']) {
    const text = (await read(page)).toLowerCase()
    for (const { endpoint } of plain)
      t.ok(text.includes(endpoint), `${page}: what ${endpoint} holds, its images, whether to retry`)
  }
})

t.test('each endpoint goes to its own path and is charged what was reported', async (t) => {
  const { backend, ask, spent } = await chatPath(t, { model: all })
  const rows = [...known, ...fresh]
  t.strictSame(
    rows.map(([path]) => path).toSorted(),
    endpoints.flatMap(({ routes }) => routes).toSorted(),
  )
  for (const [i, [path, to, body]] of rows.entries()) {
    const reply = {
      odd: '1.0',
      choices: [{ finish_reason: 'stop' }],
      usage: { prompt_tokens: 3, completion_tokens: 0 },
    }
    backend.once(json(reply))
    const answer = await ask(body, path)
    t.equal(answer.status, 200)
    t.equal(await answer.text(), JSON.stringify(reply))
    t.equal(backend.requests[i]?.path, to)
    t.equal(await spent(), 3 * (i + 1))
  }
  for (const [path, , , param] of rows) {
    const error = { code: 'missing_parameter', param }
    t.match(await (await ask({ model: 'm' }, path)).json(), { error }, path)
  }
})

t.test('a model that does not exist, or not for this endpoint, is 404', async (t) => {
  const { gate, ask } = await chatPath(t)
  t.equal(await codeOf(await ask({ ...hi, model: 'nope' })), 'model_not_found')
  t.equal(await codeOf(await ask({ model: 'm', input: 'x' }, '/v1/embeddings')), 'model_not_found')
  const strange = await gate.call('/v1/chat', 'tg_live_x', { ...hi, model: 'nope' })
  t.equal(strange.status, 401, 'strangers learn nothing')
})

t.test('an endpoint that cannot stream says so', async (t) => {
  const { ask } = await chatPath(t, { model: all })
  for (const row of plain) {
    const answer = await ask({ ...bodyOf(row), stream: true }, row.routes[0] ?? '')
    t.equal(answer.status, 400, row.endpoint)
    t.equal(await codeOf(answer), 'invalid_parameter')
  }
})
