// The tools of attackers: requests whose answers are counted or never read, sockets that send given bytes, and
// bodies of many small values.

import { Agent, request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { count } from './orders.ts'

export interface Call {
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  readonly url: string
  readonly key: string
  readonly body?: string | Buffer
  readonly headers?: Readonly<Record<string, string>>
  /** An address of 127/8, for attackers that use many addresses. */
  readonly from?: string
}

const agent = new Agent({ keepAlive: true, maxSockets: 64 })
/** The longest time that a refusal may take on a busy machine. */
const patienceMs = 30_000

/** Resolves with the status and text of the answer; the status is 0 when there was no answer. */
export async function call({ method, url, key, body, headers, from }: Call) {
  const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }
  const req = request(url, {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    agent: from === undefined ? agent : false,
    ...(from !== undefined && { localAddress: from }),
    headers: {
      authorization: `Bearer ${key}`,
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...length,
      ...headers,
    },
    signal: AbortSignal.timeout(patienceMs),
  })
  try {
    req.end(body)
    const [res] = (await once(req, 'response')) as [IncomingMessage]
    return { status: res.statusCode ?? 0, text: await text(res) }
  } catch {
    return { status: 0, text: '' }
  }
}

export function tell(
  answers: Record<string, number>,
  { status, text }: { status: number; text: string },
) {
  const code = status >= 400 ? /"code":"(\w+)"/.exec(text)?.[1] : undefined
  count(answers, [status, code].filter(Boolean).join(' '))
}

/** Calls at this rate, whether or not earlier calls were answered, but with at most `most` running at a time. */
export async function steadily(
  { ms, perSecond, most = 32 }: { ms: number; perSecond: number; most?: number },
  act: (i: number) => Promise<void>,
): Promise<void> {
  const start = performance.now()
  const running = new Set<Promise<void>>()
  for (let i = 0; performance.now() - start < ms; i++) {
    const early = start + (i * 1000) / perSecond - performance.now()
    if (early > 1) await pause(early)
    if (running.size >= most) await Promise.race(running)
    const one = act(i)
    running.add(one)
    void one.finally(() => running.delete(one))
  }
  // The attack waits for the calls that still run at its end: their memory counts for it, too.
  await Promise.race([Promise.all(running), pause(patienceMs)])
}

export interface Held {
  readonly socket: Socket
  readonly isOpen: boolean
}

/** Opens a connection and sends these bytes. With `reads` false, it does not notice that the gateway has closed it. */
export async function hold(url: string, bytes: string, { reads = true } = {}): Promise<Held> {
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1' })
  socket.on('error', () => undefined)
  if (reads) socket.resume()
  else socket.pause()
  await once(socket, 'connect').catch(() => undefined)
  socket.write(bytes)
  return {
    socket,
    get isOpen() {
      return !socket.destroyed && socket.readyState === 'open'
    },
  }
}

export function headOf(
  path: string,
  key: string,
  more: readonly string[] = [],
  method = 'GET',
): string {
  const lines = [`${method} ${path} HTTP/1.1`, 'Host: a', `Authorization: Bearer ${key}`, ...more]
  return `${lines.join('\r\n')}\r\n\r\n`
}

/** Returns a JSON text with many values in few bytes; `way` selects one of the ways in which a body can have them. */
export function smallValues(bytes: number, way: number): string {
  const head = '{"model":"end","messages":[{"role":"user","content":"Hi"}],'
  const fill = (one: string) => one.repeat(Math.ceil((bytes - head.length) / one.length))
  switch (way % 4) {
    case 0: {
      // Each member has thirteen bytes at most.
      const names = Array.from({ length: Math.floor(bytes / 13) }, (_, i) => `"k${i}":1`)
      return `${head}${names.join(',')}}`
    }
    case 1:
      return `${head}${fill('"a":1,')}"b":1}`
    case 2:
      return `${head}"tools":[${fill('1,')}1]}`
    default:
      return `${head}"tools":[${fill('{"a":[]},')}1]}`
  }
}
