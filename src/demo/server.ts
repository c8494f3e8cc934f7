// The built-in model behind `targets: [demo]`: an OpenAI-compatible server in this process on a loopback port, so that
// the gateway reaches it like every backend. It knows nothing and says so; it counts its usage, keeps the limits of a
// request, and its embeddings depend on the text alone. It does not keep the process alive.

import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { http } from '../node-http.ts'
import { field, parsed } from '../http/json/field.ts'
import { isObject } from '../http/refusals.ts'
import { demoAnswer, demoEmbedding, pieces } from './words.ts'

export interface Demo {
  /** Ends in /v1. */
  readonly url: string
  close(): Promise<void>
}

/** Between two pieces: brisk to watch, slow enough to press stop. */
const gapMs = 15
/** The gateway never sends more than its own limit, and no other client may fill this process. */
const maxBodyBytes = 64 * 1024 * 1024

export async function startDemo(): Promise<Demo> {
  const server = http.createServer((req, res) => {
    answer(req, res).catch(() => res.destroy())
  })
  server.on('connection', (socket) => socket.unref())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  server.unref()
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/v1`,
    async close() {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}

interface DemoRequest {
  readonly path: string
  readonly body: Readonly<Record<string, unknown>>
}

async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const path = new URL(req.url ?? '/', 'http://demo').pathname
  if (req.method === 'GET' && path === '/v1/models') {
    return json(res, 200, { object: 'list', data: [{ id: 'demo', object: 'model', created: 0 }] })
  }
  if (req.method !== 'POST') return refuse(res, 404, 'There is no such route.')
  const body = await readBody(req)
  if (!body) return refuse(res, 400, 'The body is not a JSON object.')
  const request = { path, body }
  if (path === '/v1/embeddings') return embeddings(res, request)
  if (path === '/v1/chat/completions' && !Array.isArray(body['messages'])) {
    return refuse(res, 400, 'messages is missing.')
  }
  if (path !== '/v1/chat/completions' && path !== '/v1/completions') {
    return refuse(res, 404, 'There is no such route.')
  }
  const talk = new Talk(request)
  return body['stream'] === true ? talk.stream(res) : json(res, 200, talk.whole())
}

function embeddings(res: ServerResponse, { body }: DemoRequest): void {
  const { input } = body
  const isList = Array.isArray(input) && typeof input[0] !== 'number'
  const inputs: readonly unknown[] = isList ? input : [input]
  const texts = inputs.map((item) => (typeof item === 'string' ? item : JSON.stringify(item ?? '')))
  const tokens = texts.reduce((sum, text) => sum + pieces(text).length, 0)
  json(res, 200, {
    object: 'list',
    model: body['model'],
    data: texts.map((text, index) => ({
      object: 'embedding',
      index,
      embedding: demoEmbedding(text),
    })),
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  })
}

/** One generation: its words are known from the start, and only sent slowly. */
class Talk {
  readonly #body: DemoRequest['body']
  readonly #isChat: boolean
  readonly #words: readonly string[]
  readonly #choices: number
  readonly #finish: 'stop' | 'length'
  readonly #head: object

  constructor({ path, body }: DemoRequest) {
    this.#body = body
    this.#isChat = path === '/v1/chat/completions'
    const all = pieces(demoAnswer(this.#isChat ? body['messages'] : body['prompt']))
    const most = count(body['max_completion_tokens']) ?? count(body['max_tokens']) ?? Infinity
    this.#words = all.slice(0, most)
    this.#choices = Math.min(count(body['n']) ?? 1, 16)
    this.#finish = this.#words.length < all.length ? 'length' : 'stop'
    const created = Math.floor(Date.now() / 1000)
    const model = typeof body['model'] === 'string' ? body['model'] : 'demo'
    this.#head = { id: `${this.#isChat ? 'chatcmpl' : 'cmpl'}-demo`, created, model }
  }

  whole(): object {
    const text = this.#words.join('')
    const said = this.#isChat ? { message: { role: 'assistant', content: text } } : { text }
    const choices = this.#each(() => ({ ...said, logprobs: null, finish_reason: this.#finish }))
    const object = this.#isChat ? 'chat.completion' : 'text_completion'
    return { ...this.#head, object, choices, usage: this.#usage() }
  }

  async stream(res: ServerResponse): Promise<void> {
    res.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
    if (this.#isChat) this.#send(res, this.#said({ role: 'assistant', content: '' }))
    for (const word of this.#words) {
      await sleep(gapMs, undefined, { ref: false })
      if (res.destroyed) return
      this.#send(res, this.#said(this.#isChat ? { content: word } : word))
    }
    this.#send(res, this.#said(this.#isChat ? {} : '', this.#finish))
    const isUsageWanted = field(this.#body['stream_options'], 'include_usage') === true
    if (isUsageWanted) this.#send(res, { choices: [], usage: this.#usage() })
    res.end('data: [DONE]\n\n')
  }

  #said(piece: object | string, finish: string | null = null): object {
    const said = this.#isChat ? { delta: piece } : { text: piece }
    return { choices: this.#each(() => ({ ...said, logprobs: null, finish_reason: finish })) }
  }

  #send(res: ServerResponse, chunk: object): void {
    const object = this.#isChat ? 'chat.completion.chunk' : 'text_completion'
    res.write(`data: ${JSON.stringify({ ...this.#head, object, ...chunk })}\n\n`)
  }

  #each(choice: () => object): object[] {
    return Array.from({ length: this.#choices }, (_, index) => ({ index, ...choice() }))
  }

  #usage(): object {
    const prompt = pieces(JSON.stringify(this.#body['messages'] ?? this.#body['prompt'] ?? ''))
    const completion = this.#words.length * this.#choices
    return {
      prompt_tokens: prompt.length,
      completion_tokens: completion,
      total_tokens: prompt.length + completion,
    }
  }
}

function count(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= 1 ? value : undefined
}

async function readBody(req: IncomingMessage): Promise<DemoRequest['body'] | undefined> {
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of req as AsyncIterable<Buffer>) {
    bytes += part.length
    if (bytes > maxBodyBytes) return undefined
    parts.push(part)
  }
  const value = parsed(Buffer.concat(parts).toString())
  return isObject(value) ? { ...value } : undefined
}

function refuse(res: ServerResponse, status: number, message: string): void {
  json(res, status, { error: { message, type: 'invalid_request_error', param: null, code: null } })
}

function json(res: ServerResponse, status: number, value: object): void {
  res.writeHead(status, { 'content-type': 'application/json' })
  res.end(JSON.stringify(value))
}
