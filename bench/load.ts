// The load generator, in a process of its own: keep-alive HTTP/1.1 over bare sockets, so that it costs less than what
// it measures. A closed loop for costs, an open loop for latency, streams held open for memory. Orders come by IPC, one
// at a time. It trusts the answers of bench/backend.ts: their bodies never contain the end mark of a chunked body.

import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'

/** Whom to ask, and how. Connection n sends the headers at n modulo their number. */
export interface Aim {
  readonly port: number
  readonly path: string
  readonly headers: readonly string[]
}

export type LoadOrder =
  | {
      readonly kind: 'closed'
      readonly aim: Aim
      readonly connections: number
      readonly ms: number
      /** By all connections together; by default as many as fit. */
      readonly perSecond?: number | undefined
    }
  | {
      readonly kind: 'paced'
      readonly aim: Aim
      readonly perSecond: number
      readonly ms: number
      readonly user: string
    }
  | {
      readonly kind: 'open'
      readonly aim: Aim
      readonly streams: number
      readonly perSecond: number
      readonly user: string
    }
  | { readonly kind: 'ended' }

export interface LoadReport {
  readonly requests: number
  readonly failures: number
  /** The head or the error of the first failure. */
  readonly failure: string
  readonly ms: number
  /** ms until the first byte of the body, of each request. */
  readonly firstByteMs: readonly number[]
}

const content =
  'Tell me about the rain on the roof of the old mill, and leave nothing out. '.repeat(11)
/** High, because streams that are held open for minutes must not reach it. */
const fields = { model: 'bench', messages: [{ role: 'user', content }], max_tokens: 1_000_000 }
const plain = JSON.stringify({ ...fields, user: 'u'.repeat(95) })
const streamed = (user: string) =>
  JSON.stringify({ ...fields, stream: true, stream_options: { include_usage: true }, user })

let failures = 0
let failure = ''
function fail(why: string): void {
  failure ||= why.slice(0, 600)
  failures++
}

/** One buffer for all connections: the data is processed before the next read. */
const arrived = Buffer.allocUnsafe(256 * 1024)
const endOfHead = Buffer.from('\r\n\r\n')

/** One connection, with one request at a time. */
class Client {
  readonly #socket: Socket
  readonly #head: string
  #done: ((ok: boolean) => void) | undefined
  #sentAt = 0
  #firstAt = 0
  #firstByte: (() => void) | undefined
  #isBody = false
  #isOk = false
  /** Bytes that are still to come; -1 while the body is chunked. */
  #left = 0
  #tail = ''

  constructor(aim: Aim, index: number) {
    const headers = aim.headers[index % aim.headers.length] ?? ''
    this.#head = `POST ${aim.path} HTTP/1.1\r\nHost: 127.0.0.1:${aim.port}\r\nContent-Type: application/json\r\nAccept: application/json\r\nUser-Agent: OpenAI/JS 7.55.0\r\n${headers}Content-Length: `
    this.#socket = connect({
      port: aim.port,
      host: '127.0.0.1',
      noDelay: true,
      onread: {
        buffer: arrived,
        callback: (size) => {
          this.#read(size)
          return true
        },
      },
    })
    this.#socket.on('error', (error) => this.#end(false, String(error)))
    this.#socket.on('close', () => this.#end(false, 'closed early'))
  }

  /** `firstByte` is called when the first byte of the body is there. */
  ask(body: string, firstByte?: () => void): Promise<boolean> {
    this.#isBody = false
    this.#tail = ''
    this.#firstAt = 0
    this.#firstByte = firstByte
    this.#sentAt = performance.now()
    this.#socket.write(`${this.#head}${body.length}\r\n\r\n${body}`, 'latin1')
    if (this.#socket.destroyed)
      return Promise.resolve(false).finally(() => fail('closed while idle'))
    return new Promise((resolve) => void (this.#done = resolve))
  }

  /** Proxies close connections that are idle for long (Node: after 5 s); a request must not use such a connection. */
  get isFresh(): boolean {
    return !this.#socket.destroyed && performance.now() - this.#firstAt < 3000
  }

  get firstByteMs(): number {
    return this.#firstAt - this.#sentAt
  }

  close(): void {
    this.#socket.destroy()
  }

  #read(size: number): void {
    let from = 0
    if (!this.#isBody) {
      from = this.#readHead(size)
      if (from < 0) return
    }
    if (from < size && this.#firstAt === 0) {
      this.#firstAt = performance.now()
      this.#firstByte?.()
    }
    if (this.#left >= 0) {
      this.#left -= size - from
      if (this.#left <= 0) this.#end(this.#isOk, 'status')
      return
    }
    this.#tail = (this.#tail + arrived.toString('latin1', Math.max(from, size - 5), size)).slice(-5)
    if (this.#tail === '0\r\n\r\n') this.#end(this.#isOk, 'status')
  }

  /** Where the body begins, or -1. Every proxy here sends the head in one piece. */
  #readHead(size: number): number {
    const end = arrived.subarray(0, size).indexOf(endOfHead)
    if (end < 0) {
      this.#end(false, 'a head in pieces')
      return -1
    }
    const head = arrived.toString('latin1', 0, end)
    this.#isBody = true
    this.#isOk = head.startsWith('HTTP/1.1 200')
    if (!this.#isOk) failure ||= arrived.toString('latin1', 0, Math.min(size, 600))
    const length = /\ncontent-length: *(\d+)/i.exec(head)?.[1]
    this.#left = length === undefined ? -1 : Number(length)
    return end + 4
  }

  #end(ok: boolean, why: string): void {
    const done = this.#done
    this.#done = undefined
    if (!done) return
    if (!ok) fail(why)
    done(ok)
  }
}

type Order<K extends LoadOrder['kind']> = Extract<LoadOrder, { readonly kind: K }>
interface Sum {
  requests: number
  readonly firstByteMs: number[]
}

/** Each connection sends the next request as soon as it is answered, or when its turn comes. */
async function closedLoop(order: Order<'closed'>, sum: Sum): Promise<void> {
  const { aim, connections, ms, perSecond = Infinity } = order
  const from = performance.now()
  const loop = async (index: number) => {
    const client = new Client(aim, index)
    for (let turn = index; performance.now() < from + ms; turn += connections) {
      const early = from + (turn * 1000) / perSecond - performance.now()
      if (early > 0) await wait(early)
      if (!(await client.ask(plain))) break
      sum.requests++
    }
    client.close()
  }
  await Promise.all(Array.from({ length: connections }, (_, index) => loop(index)))
}

/** Begins streams at a steady rate, whether or not earlier ones have ended. */
async function paced({ aim, perSecond, ms, user }: Order<'paced'>, sum: Sum): Promise<void> {
  const idle: Client[] = []
  const asked: Promise<void>[] = []
  const body = streamed(user)
  const start = performance.now()
  let made = 0
  const one = async (client: Client) => {
    if (!(await client.ask(body))) return
    sum.requests++
    sum.firstByteMs.push(client.firstByteMs)
    idle.push(client)
  }
  for (let n = 0; n < (perSecond * ms) / 1000; n++) {
    const due = start + (n * 1000) / perSecond + Math.random() * 5
    await wait(Math.max(0, due - performance.now()))
    asked.push(one(fresh(idle) ?? new Client(aim, made++)))
  }
  await Promise.all(asked)
  for (const client of idle) client.close()
}

/** The connection that was used last, if it can be used again. */
function fresh(idle: Client[]): Client | undefined {
  const client = idle.pop()
  if (client?.isFresh) return client
  for (const old of [client, ...idle.splice(0)]) old?.close()
  return undefined
}

let opened: Promise<boolean>[] = []

/** Opens streams and leaves them open; resolves when each has had its first byte. `ended` waits until they end. */
async function open({ aim, streams, perSecond, user }: Order<'open'>): Promise<void> {
  const body = streamed(user)
  const firsts: Promise<unknown>[] = []
  const start = performance.now()
  for (let n = 0; n < streams; n++) {
    const due = start + (n * 1000) / perSecond
    if (due > performance.now()) await wait(due - performance.now())
    const client = new Client(aim, n)
    const first = new Promise<void>((resolve) => {
      const end = client.ask(body, resolve).finally(() => client.close())
      opened.push(end)
      void end.then(() => resolve())
    })
    firsts.push(first)
  }
  await Promise.all(firsts)
}

async function obey(order: LoadOrder): Promise<LoadReport> {
  const sum: Sum = { requests: 0, firstByteMs: [] }
  const start = performance.now()
  failures = 0
  failure = ''
  if (order.kind === 'closed') await closedLoop(order, sum)
  if (order.kind === 'paced') await paced(order, sum)
  if (order.kind === 'open') await open(order)
  if (order.kind === 'ended') {
    const ends = opened
    opened = []
    sum.requests = (await Promise.all(ends)).filter(Boolean).length
  }
  return { ...sum, failures, failure, ms: performance.now() - start }
}

process.on(
  'message',
  (order: LoadOrder) => void obey(order).then((report) => process.send?.(report)),
)
process.on('disconnect', () => process.exit())
