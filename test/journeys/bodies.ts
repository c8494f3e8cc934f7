// Bodies as attacks, each beside an honest customer: what an attacker announces, holds, invents or piles up must not
// keep others out. On a small scale: 16 MiB for all bodies instead of 256.

import t from 'tap'
import type { Test } from 'tap'
import { newKey } from '../../src/accounts/api-key.ts'
import { startBackend } from '../fixtures/backend.ts'
import type { Script } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { Gate } from '../fixtures/gate.ts'
import { codeOf, startGateway } from '../fixtures/gateway.ts'
import type { InProcess } from '../fixtures/gateway.ts'
import { Reading, refOf } from '../fixtures/money.ts'
import { rawClient } from '../fixtures/raw-http.ts'
import { until } from '../fixtures/until.ts'

const mebibyte = 2 ** 20

async function start(t: Test, script: Script = chat()) {
  const backend = await startBackend(t, script)
  const yaml = [
    `models: { m: { targets: [{ url: '${backend.url}' }], context_window: 10000000,`,
    '  accepts: [text, image], price: { input: 0, output: 1 } } }',
    'plans: { default: { requests_per_minute: 60, tokens_per_minute: 100000000, concurrency: 50 } }',
    'limits: { bodies: 16MiB, json_v1: 4MiB, json_message: 4MiB }',
  ].join('\n')
  const gateway = await startGateway(t, { yaml })
  return { backend, gateway, port: Number(new URL(gateway.url).port) }
}

/** Streams that wait after their first content. */
function heldStreams(gate: Gate): Script {
  const model = chat()
  return async (call) => {
    if (call.json['stream'] !== true) return model(call)
    call.res.writeHead(200, { 'content-type': 'text/event-stream' })
    const choice = { index: 0, delta: { content: 'Hi' } }
    call.res.write(`data: ${JSON.stringify({ choices: [{ ...choice, finish_reason: null }] })}\n\n`)
    await gate.wait()
    call.res.write(
      `data: ${JSON.stringify({ choices: [{ ...choice, finish_reason: 'stop' }] })}\n\n`,
    )
    call.res.end('data: [DONE]\n\n')
  }
}

const asking = (content: unknown, more: object = {}) => ({
  model: 'm',
  messages: [{ role: 'user', content }],
  max_tokens: 2,
  ...more,
})
const large = asking('x'.repeat(1.5 * mebibyte))
const image = (bytes: number) => [
  { type: 'image_url', image_url: { url: `data:image/png;base64,${'A'.repeat(bytes)}` } },
]

/** Sends large requests and small ones, which must succeed. */
async function isServed(t: Test, gateway: InProcess, key: string): Promise<void> {
  for (const body of [large, asking('Hi'), large]) {
    const answer = await gateway.call('/v1/chat', key, body)
    t.equal(answer.status, 200, (await answer.text()).slice(0, 200))
  }
}

const head = (path: string, key: string, bytes: number) =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n` +
  `Content-Type: application/json\r\nContent-Length: ${bytes}\r\n\r\n`

t.test('heads that announce all of the memory take none of it', async (t) => {
  const { gateway, port } = await start(t)
  const attacker = await gateway.account(0)
  for (let i = 0; i < 8; i++) {
    const client = await rawClient(t, port)
    client.send(head('/v1/chat', attacker.key, 4 * mebibyte), '{')
  }
  await isServed(t, gateway, (await gateway.account(1000)).key)
})

t.test('bodies that never end stay within the share of their account', async (t) => {
  const { gateway, port } = await start(t)
  const attacker = await gateway.account(0)
  const clients = await Promise.all(Array.from({ length: 8 }, () => rawClient(t, port)))
  const refused = clients.map((client) => client.answer())
  for (const client of clients) {
    client.send(head('/v1/chat', attacker.key, 4 * mebibyte), 'x'.repeat(4 * mebibyte - 1))
  }
  const first = await Promise.race(refused)
  t.match(first, { status: 503, json: { error: { code: 'overloaded' } } })
  t.equal(first.headers['retry-after'], '1')
  await isServed(t, gateway, (await gateway.account(1000)).key)
  for (const one of refused) one.catch(() => undefined)
})

t.test('streams keep the memory of their bodies only until they begin', async (t) => {
  const gate = new Gate()
  const { gateway } = await start(t, heldStreams(gate))
  const attacker = await gateway.account(1_000_000)
  const body = asking(image(3 * mebibyte), { stream: true })
  const readings: Reading[] = []
  for (let i = 0; i < 9; i++) {
    const answer = await gateway.call('/v1/chat', attacker.key, body)
    t.equal(answer.status, 200, `stream ${i}`)
    readings.push(new Reading(answer))
  }
  await isServed(t, gateway, (await gateway.account(1000)).key)
  gate.open()
  for (const reading of readings) t.match(await reading.end(), /\[DONE\]/)
})

t.test('whole answers keep it only until their head is there', async (t) => {
  const gate = new Gate()
  const model = chat()
  const { backend, gateway } = await start(t, async (call) => {
    if (call.json['user'] !== 'attacker') return model(call)
    call.res.writeHead(200, { 'content-type': 'application/json' }).flushHeaders()
    await gate.wait()
    call.res.end('{"choices":[{"index":0,"finish_reason":"stop","message":{"content":"Hi"}}]}')
  })
  const attacker = await gateway.account(1_000_000)
  const body = asking(image(3 * mebibyte), { user: 'attacker' })
  const answers: Promise<Response>[] = []
  for (let i = 0; i < 9; i++) {
    await until(async () => {
      const answer = gateway.call('/v1/chat', attacker.key, body)
      const asked = backend.request(i).then(() => true)
      const isAsked = await Promise.race([answer.then(() => false), asked])
      if (isAsked) answers.push(answer)
      return isAsked
    })
  }
  await isServed(t, gateway, (await gateway.account(1000)).key)
  gate.open()
  for (const answer of answers) t.equal((await answer).status, 200)
})

t.test('a stranger gets nothing over 4 KiB parsed, and nothing read', async (t) => {
  const { gateway, port } = await start(t)
  const honest = await gateway.account(1000)
  const invented = newKey(refOf(honest))
  const broken = `{${'"a":1,'.repeat(1000)}`
  for (const path of ['/v1/chat', '/api/chat/sessions']) {
    t.equal((await gateway.call(path, honest.key, broken)).status, 400)
    t.equal(await codeOf(await gateway.call(path, invented, broken)), 'invalid_api_key')
    const client = await rawClient(t, port)
    client.send(head(path, invented, 5000))
    t.equal((await client.answer()).json.error?.code, 'invalid_api_key', 'without its body')
  }
  await isServed(t, gateway, honest.key)
})

t.test('invented and revoked keys use up no requests of their account', async (t) => {
  const { gateway } = await start(t)
  const honest = await gateway.account(1000)
  const revoked = await gateway.keyFor(honest.id)
  await gateway.admin('DELETE', `keys/${revoked.id}`)
  const wrong = Array.from({ length: 350 }, () => [revoked.key, newKey(refOf(honest))]).flat()
  const answers = await Promise.all(wrong.map((key) => gateway.call('/api/billing/balance', key)))
  t.ok(answers.every(({ status }) => status === 401 || status === 429))
  const answer = await gateway.call('/api/billing/balance', honest.key)
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('x-ratelimit-remaining-requests'), '59')
})

t.test('megabytes of small values are refused early, however often they come', async (t) => {
  const { gateway } = await start(t)
  const attacker = await gateway.account(0)
  const names = Array.from({ length: 300_000 }, (_, i) => `"${i.toString(36)}":1`)
  const bodies = [
    `{${names.join(',')}}`,
    `{"model":"m","x":{${names.join(',')}}}`,
    `{"model":"m","x":[${'[],'.repeat(mebibyte)}1]}`,
    `{"model":"m","input":[${'1,'.repeat(1.5 * mebibyte)}1]}`,
  ]
  const attacks = bodies
    .flatMap((body) => [body, body])
    .map(async (body) => {
      const answer = await gateway.call('/v1/chat', attacker.key, body)
      return answer.status === 503 ? 'overloaded' : await codeOf(answer)
    })
  await isServed(t, gateway, (await gateway.account(1000)).key)
  const codes = new Set(await Promise.all(attacks))
  codes.delete('overloaded')
  t.strictSame([...codes], ['invalid_json'])
})
