// Many small files: each connection sends the same upload, or asks for the next file, as soon as it is answered. Bare
// sockets, so that the load costs less than what it measures. Orders come by IPC, one at a time.

import { connect } from 'node:net'
import type { Socket } from 'node:net'

export interface FileLoadOrder {
  readonly port: number
  /** Complete request heads, sent in turn. */
  readonly heads: readonly string[]
  /** Sent after each head. */
  readonly body: { readonly before: string; readonly bytes: number; readonly after: string } | null
  readonly connections: number
  /** Ends after this many answers. */
  readonly count: number
}

export interface FileLoadReport {
  readonly ms: number
  readonly failure: string
  /** The last path segments of the Location headers of the answers. */
  readonly made: readonly string[]
}

const arrived = Buffer.allocUnsafe(1024 * 1024)
const endOfHead = Buffer.from('\r\n\r\n')

interface State {
  readonly order: FileLoadOrder
  readonly payload: Buffer
  readonly made: string[]
  asked: number
}

/** Uses one connection until all requests are sent. Rejects on any status but 200 and 201. */
function talk(state: State): Promise<void> {
  const { order, payload, made } = state
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let left = 0
  let isHead = true
  const ask = () => {
    if (state.asked === order.count) {
      resolve()
      socket.destroy()
      return
    }
    const head = order.heads[state.asked++ % order.heads.length] ?? ''
    isHead = true
    socket.cork()
    socket.write(head, 'latin1')
    socket.write(payload)
    socket.uncork()
  }
  const callback = (size: number) => {
    let from = 0
    if (isHead) {
      const end = arrived.subarray(0, size).indexOf(endOfHead)
      const head = arrived.toString('latin1', 0, Math.max(0, end))
      if (!/^HTTP\/1.1 20[01]/.test(head)) {
        reject(new Error(arrived.toString('latin1', 0, Math.min(size, 800))))
        return true
      }
      const location = /\nlocation: \S+\/(\S+)/i.exec(head)?.[1]
      if (location) made.push(location)
      left = Number(/\ncontent-length: *(\d+)/i.exec(head)?.[1])
      isHead = false
      from = end + 4
    }
    left -= size - from
    if (left <= 0) ask()
    return true
  }
  const socket: Socket = connect({
    port: order.port,
    host: '127.0.0.1',
    noDelay: true,
    onread: { buffer: arrived, callback },
  })
  socket.on('connect', ask)
  socket.on('error', reject)
  socket.on('close', () => reject(new Error('closed early')))
  return promise
}

async function obey(order: FileLoadOrder): Promise<FileLoadReport> {
  const { body } = order
  const payload = body
    ? Buffer.concat([Buffer.from(body.before), noise(body.bytes), Buffer.from(body.after)])
    : Buffer.alloc(0)
  const state: State = { order, payload, made: [], asked: 0 }
  const start = performance.now()
  let failure = ''
  try {
    await Promise.all(Array.from({ length: order.connections }, () => talk(state)))
  } catch (error) {
    failure = String(error)
  }
  return { ms: performance.now() - start, failure, made: state.made }
}

function noise(bytes: number): Buffer {
  return Buffer.from(Array.from({ length: bytes }, (_, n) => (n * 2_654_435_761) >>> 24))
}

process.on(
  'message',
  (order: FileLoadOrder) => void obey(order).then((report) => process.send?.(report)),
)
process.on('disconnect', () => process.exit())
