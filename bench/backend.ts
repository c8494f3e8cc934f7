// The backend behind every proxy of the benchmark, in a process of its own: OpenAI-shaped answers at the lowest
// possible cost, on bare sockets. Every answer reports the same usage, so the benchmark knows to the token what the
// ledger must have charged. It understands only the requests of bench/load.ts: POST with Content-Length, `user` as
// `e<events>/<ms between>`.

import { createServer } from 'node:net'
import type { Socket } from 'node:net'

/** The usage of every answer, streamed or not. */
export const usage = { prompt_tokens: 200, completion_tokens: 50, total_tokens: 250 }

export type BackendOrder = 'counts' | 'finish'
export interface BackendCounts {
  readonly port: number
  readonly requests: number
  /** Events written so far. */
  readonly events: number
}

interface Stream {
  readonly socket: Socket
  readonly everyMs: number
  left: number
}

const head = (type: string, rest: string) =>
  `HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\nDate: ${new Date().toUTCString()}\r\n${rest}\r\n\r\n`
const chunked = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
const shape = { id: 'chatcmpl-bench', created: 1750000000, model: 'bench' }
const eventOf = (rest: object) =>
  chunked(`data: ${JSON.stringify({ ...shape, object: 'chat.completion.chunk', ...rest })}\n\n`)

const tokenEvent = eventOf({
  choices: [{ index: 0, delta: { content: ' token' }, logprobs: null, finish_reason: null }],
})
const lastEvents =
  eventOf({ choices: [{ index: 0, delta: {}, logprobs: null, finish_reason: 'stop' }] }) +
  eventOf({ choices: [], usage }) +
  chunked('data: [DONE]\n\n') +
  '0\r\n\r\n'
const whole = JSON.stringify({
  ...shape,
  object: 'chat.completion',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: 'Rain on the roof. '.repeat(42) },
      logprobs: null,
      finish_reason: 'stop',
    },
  ],
  usage,
})
const answer = head('application/json', `Content-Length: ${whole.length}`) + whole

let requests = 0
let events = 0
const streams = new Set<Stream>()
/** Streams by the millisecond in which they are due: one timer serves 9,000 of them. */
const wheel = Array.from({ length: 8192 }, () => new Set<Stream>())
let clock = Math.floor(performance.now())

function turn(): void {
  const now = Math.floor(performance.now())
  for (; clock < now; clock++) {
    const due = wheel[clock % wheel.length]
    if (!due || due.size === 0) continue
    const batch = [...due]
    due.clear()
    batch.forEach(step)
  }
}

function step(stream: Stream): void {
  if (!streams.has(stream)) return
  if (stream.socket.destroyed) return void streams.delete(stream)
  if (stream.left <= 0) return finish(stream)
  events++
  stream.left--
  stream.socket.write(tokenEvent, 'latin1')
  wheel[(clock + stream.everyMs) % wheel.length]?.add(stream)
}

function finish(stream: Stream): void {
  if (!streams.delete(stream)) return
  events += 3
  stream.socket.write(lastEvents, 'latin1')
}

/** Sends the head and the first event together, as soon as the request is there. */
function begin(socket: Socket, body: string): void {
  const asked = /"user":"e(\d+)\/(\d+)"/.exec(body)
  const stream = { socket, left: Number(asked?.[1] ?? 1) - 1, everyMs: Number(asked?.[2] ?? 10) }
  events++
  streams.add(stream)
  socket.write(head('text/event-stream', 'Transfer-Encoding: chunked') + tokenEvent, 'latin1')
  wheel[(clock + stream.everyMs) % wheel.length]?.add(stream)
}

function serve(socket: Socket): void {
  let text = ''
  socket.setNoDelay(true)
  socket.on('error', () => undefined) // A proxy that is stopped resets its connections.
  socket.on('data', (part) => {
    text += part.toString('latin1')
    for (;;) {
      const end = text.indexOf('\r\n\r\n')
      if (end < 0) return
      const length = Number(/content-length: *(\d+)/i.exec(text.slice(0, end))?.[1] ?? 0)
      if (text.length < end + 4 + length) return
      const body = text.slice(end + 4, end + 4 + length)
      text = text.slice(end + 4 + length)
      requests++
      if (body.includes('"stream":true')) begin(socket, body)
      else socket.write(answer, 'latin1')
    }
  })
}

if (process.send) {
  const server = createServer({ noDelay: true }, serve)
  const tell = () => {
    const address = server.address()
    const port = typeof address === 'object' && address ? address.port : 0
    process.send?.({ port, requests, events } satisfies BackendCounts)
  }
  server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, tell)
  setInterval(turn, 1)
  process.on('message', (order: BackendOrder) => {
    if (order === 'finish') for (const stream of streams) finish(stream)
    tell()
  })
  process.on('disconnect', () => process.exit())
}
