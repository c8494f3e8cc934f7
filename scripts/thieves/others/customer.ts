// The honest customer, in a process of its own with a backend of its own, so that only the gateway is between the
// customer and the answers: small chats all the time, lists, and now and then a large body, a file, a session.

import { Agent, createServer, request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { randomUUID } from 'node:crypto'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { boundary, field, filePart, multipart } from '../../../test/fixtures/multipart.ts'
import { obey } from '../../worker.ts'
import { count } from './orders.ts'
import type { Measure, Measured } from './orders.ts'

const chatsPerSecond = 20
const listsPerSecond = 2
const othersPerSecond = 0.7
/** A request without an answer after this time has failed. */
const patienceMs = 15_000
const largeBytes = 256 * 1024
const fileBytes = 2 ** 20

const chunk = (fields: object) =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'customer', ...fields })}\n\n`
const spoken = ['Good', ' morning', '.'].map((content) =>
  chunk({ choices: [{ index: 0, delta: { content }, finish_reason: null }] }),
)
const usage = { prompt_tokens: 10, completion_tokens: 3, total_tokens: 13 }
const answer = [
  ...spoken,
  chunk({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
  chunk({ choices: [], usage }),
  'data: [DONE]\n\n',
].join('')

const backend = createServer((req, res) => {
  req.resume().on('end', () => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.end(answer)
  })
})
backend.listen(0, '127.0.0.1')
await once(backend, 'listening')
const { port } = backend.address() as AddressInfo

obey(`http://127.0.0.1:${port}/v1`, measure)

interface Sent {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly key: string
  readonly type?: string
  readonly body?: string | Buffer
  readonly headers?: Readonly<Record<string, string>>
}

async function measure(order: Measure): Promise<Measured> {
  const { url, key, quietKey, session, ms } = order
  const agent = new Agent({ keepAlive: true })
  const latenciesMs: number[] = []
  const failures: Record<string, number> = {}
  const running = new Set<Promise<void>>()
  let requests = 0
  const run = (name: string, sent: Sent, isSmall: boolean) => {
    requests++
    const at = performance.now()
    const one = answerOf(url, agent, sent).then((status) => {
      if (isSmall) latenciesMs.push(performance.now() - at)
      if (status !== '200' && status !== '201') count(failures, `${name}: ${status}`)
    })
    running.add(one)
    void one.finally(() => running.delete(one))
  }
  const turns: (() => void)[] = [
    () => run('large body', chat(key, 'x '.repeat(largeBytes / 2)), false),
    () => run('upload', upload(key, session), false),
    () => run('session', newSession(key), true),
  ]
  let turn = 0
  const timers = [
    setInterval(() => run('chat', chat(key, 'Good morning?'), true), 1000 / chatsPerSecond),
    setInterval(() => run('list', list(quietKey), true), 1000 / listsPerSecond),
    setInterval(() => turns[turn++ % turns.length]?.(), 1000 / othersPerSecond / turns.length),
  ]
  await pause(ms)
  for (const timer of timers) clearInterval(timer)
  await Promise.all(running)
  agent.destroy()
  return { requests, latenciesMs: latenciesMs.toSorted((a, b) => a - b), failures }
}

/** Resolves with the status, and the code of a refusal. A stream that ends without [DONE] has failed. */
async function answerOf(url: string, agent: Agent, sent: Sent): Promise<string> {
  const { method, path, key, type = 'application/json', body, headers } = sent
  const length =
    body === undefined ? {} : { 'content-type': type, 'content-length': Buffer.byteLength(body) }
  const req = request(url + path, {
    method,
    agent,
    headers: { authorization: `Bearer ${key}`, ...length, ...headers },
    signal: AbortSignal.timeout(patienceMs),
  })
  try {
    req.end(body)
    const [res] = (await once(req, 'response')) as [IncomingMessage]
    const said = await text(res)
    if (res.statusCode === 200 && path.startsWith('/v1/chat') && !said.endsWith('[DONE]\n\n'))
      return 'cut'
    const code = /"code":"(\w+)"/.exec(said)?.[1]
    return `${res.statusCode ?? 0}${code && res.statusCode !== 200 ? ` ${code}` : ''}`
  } catch (error) {
    return error instanceof Error
      ? `${error.name} ${'code' in error ? String(error.code) : ''}`
      : 'failed'
  }
}

function chat(key: string, content: string): Sent {
  const messages = [{ role: 'user', content }]
  const body = JSON.stringify({ model: 'customer', messages, stream: true, max_tokens: 16 })
  return { method: 'POST', path: '/v1/chat/completions', key, body }
}

const list = (key: string): Sent => ({ method: 'GET', path: '/api/chat/sessions', key })

function newSession(key: string): Sent {
  const headers = { 'idempotency-key': randomUUID() }
  return { method: 'POST', path: '/api/chat/sessions', key, body: '{"title":"Mine"}', headers }
}

function upload(key: string, session: string): Sent {
  const body = multipart([field('session_id', session), filePart(Buffer.alloc(fileBytes, 7))])
  const type = `multipart/form-data; boundary=${boundary}`
  return { method: 'POST', path: '/api/files/upload', key, type, body }
}
