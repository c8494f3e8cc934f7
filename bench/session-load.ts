// Streams of sessions held open, in a process of its own: each message has several readers, the sender and others
// that read it from its own URL. The content is thrown away. Orders come by IPC, one at a time.

import { connect } from 'node:net'
import type { Socket } from 'node:net'

export type SessionOrder =
  | {
      readonly kind: 'open'
      readonly port: number
      readonly key: string
      /** The paths to send to, one stream each. */
      readonly paths: readonly string[]
      readonly readers: number
      readonly body: string
    }
  | { readonly kind: 'ended' }

export interface SessionReport {
  readonly failures: number
  readonly failure: string
  readonly streams: number
}

let failures = 0
let failure = ''
let open: Promise<boolean>[] = []

const arrived = Buffer.allocUnsafe(256 * 1024)

/** `head` resolves with the head; `ended` resolves with whether the body came to its end. */
function ask(port: number, request: string): { head: Promise<string>; ended: Promise<boolean> } {
  const head = Promise.withResolvers<string>()
  const ended = Promise.withResolvers<boolean>()
  let isBody = false
  let tail = ''
  const socket: Socket = connect({
    port,
    host: '127.0.0.1',
    noDelay: true,
    onread: {
      buffer: arrived,
      callback(size) {
        if (!isBody) {
          const text = arrived.toString('latin1', 0, size)
          isBody = true
          if (!text.startsWith('HTTP/1.1 200')) fail(text.slice(0, 600))
          head.resolve(text)
        }
        tail = (tail + arrived.toString('latin1', Math.max(0, size - 5), size)).slice(-5)
        if (tail === '0\r\n\r\n') {
          ended.resolve(true)
          socket.destroy()
        }
        return true
      },
    },
  })
  socket.on('error', (error) => fail(String(error)))
  socket.on('close', () => {
    head.resolve('')
    ended.resolve(false)
  })
  socket.write(request, 'latin1')
  return { head: head.promise, ended: ended.promise }
}

function fail(why: string): void {
  failure ||= why
  failures++
}

type Opening = Extract<SessionOrder, { readonly kind: 'open' }>

async function openOne({ port, key, readers, body }: Opening, path: string): Promise<void> {
  const lines = `Host: 127.0.0.1:${port}\r\nAuthorization: Bearer ${key}\r\n`
  const post = `POST ${path} HTTP/1.1\r\n${lines}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  const sent = ask(port, post)
  open.push(sent.ended)
  const location = /\r\nLocation: (\S+)/i.exec(await sent.head)?.[1]
  if (!location) return
  for (let reader = 1; reader < readers; reader++) {
    const read = ask(port, `GET ${location} HTTP/1.1\r\n${lines}\r\n`)
    open.push(read.ended)
    await read.head
  }
}

/** Opens only a few at a time, so that the measure is not of a burst of new requests. */
async function openAll(order: Opening): Promise<void> {
  const left = [...order.paths]
  const lane = async () => {
    for (let path = left.pop(); path !== undefined; path = left.pop()) await openOne(order, path)
  }
  await Promise.all(Array.from({ length: 8 }, lane))
}

async function obey(order: SessionOrder): Promise<SessionReport> {
  failures = 0
  failure = ''
  let streams = open.length
  if (order.kind === 'open') await openAll(order)
  else {
    const ends = await Promise.all(open)
    streams = ends.filter(Boolean).length
    open = []
  }
  return { failures, failure, streams }
}

process.on(
  'message',
  (order: SessionOrder) => void obey(order).then((report) => process.send?.(report)),
)
process.on('disconnect', () => process.exit())
