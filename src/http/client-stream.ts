// An answer that is written bit by bit. Promises that headers go out at once, that memory does not grow with a slow
// client, that a client which takes nothing is dropped, and that nothing throws once the client has left.

import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Writable } from 'node:stream'
import { discard } from '../sharing/discard.ts'
import { plain } from '../plain.ts'
import { watchReader } from './slow-reader.ts'
import type { ReaderLimits } from './slow-reader.ts'

export interface StreamLimits extends ReaderLimits {
  /** Called with the size of each piece of content that is written. */
  onContent?(bytes: number): void
}

/** An answer that is written bit by bit; a generation writes to it. */
export interface StreamOut {
  /**
   * A string is latin1: one char a byte. A Buffer belongs to the stream afterwards, which frees it. Returns false when
   * the client is slow: wait for `drained`. Does nothing when the client has left.
   */
  write(bytes: string | Buffer): boolean
  /** Resolves when the client has taken what was written, or has left. */
  drained(): Promise<void>
  readonly left: boolean
}

export interface ClientStream extends StreamOut {
  end(): void
}

export interface StreamHead {
  readonly status: number
  /** Flat: name, value, name, value. */
  readonly headers: readonly string[]
  readonly limits: StreamLimits
}

export function openClientStream(res: ServerResponse, head: StreamHead): ClientStream {
  const framed = beginStream(res, head)
  return new Stream(res, { framed, measure: watchReader(res, head.limits) })
}

/** Returns true when each write has to be framed as a chunk here; otherwise Node does that if it is needed. */
function beginStream(res: ServerResponse, { status, headers }: StreamHead): boolean {
  const hasLength = headers.some(
    (name, i) => i % 2 === 0 && name.toLowerCase() === 'content-length',
  )
  const mayChunk = res.req.httpVersionMinor >= 1 && status !== 204 && status !== 304
  const framed = mayChunk && !hasLength
  // Node would promise an HTTP/1.0 client chunks if it sends `TE: chunked`, but the writes below are not framed for it.
  if (!framed) res.useChunkedEncodingByDefault = false
  const byHand = framed && !plain.has('event-frames')
  res.writeHead(status, byHand ? [...headers, 'Transfer-Encoding', 'chunked'] : [...headers])
  res.flushHeaders()
  // Node's own framing costs four small writes an event. With one string for each event: 19.3 µs instead of 24.7.
  if (byHand) res.chunkedEncoding = false
  return byHand
}

/** A longer string is sent as a Buffer: the system would copy the string, and keep both until the client has taken it. */
const longBytes = 16 * 1024

/** A writer that does not wait for `drained` is cut off at this size; one event of a backend may have 8 MiB. */
const maxBufferedBytes = 32 * 1024 * 1024

interface Writing {
  readonly framed: boolean
  /** What watchReader returned for this client. */
  measure(): void
}

class Stream implements ClientStream {
  readonly #res: ServerResponse
  readonly #framed: boolean
  readonly #mayGoDirect: boolean
  readonly #measure: () => void
  #draining: Promise<void> | undefined

  constructor(res: ServerResponse, { framed, measure }: Writing) {
    this.#res = res
    this.#framed = framed
    this.#measure = measure
    const hasBody = res.req.method !== 'HEAD' && res.statusCode !== 204 && res.statusCode !== 304
    this.#mayGoDirect = hasBody && !plain.has('event-frames')
  }

  get left(): boolean {
    return this.#res.destroyed && !this.#res.writableFinished
  }

  write(bytes: string | Buffer): boolean {
    const res = this.#res
    if (res.destroyed || bytes.length === 0) return true
    const isShort = typeof bytes === 'string' && bytes.length <= longBytes
    if (isShort ? this.#writeText(bytes) : this.#writeBuffer(bytes)) return true
    if (res.writableLength > maxBufferedBytes) res.destroy()
    this.#measure()
    return false
  }

  #writeText(bytes: string): boolean {
    const frame = this.#framed ? `${bytes.length.toString(16)}\r\n${bytes}\r\n` : bytes
    const socket = this.#direct()
    return socket ? socket.write(frame, 'latin1') : this.#res.write(frame, 'latin1')
  }

  #writeBuffer(given: string | Buffer): boolean {
    const bytes = typeof given === 'string' ? Buffer.from(given, 'latin1') : given
    const out: Writable = this.#direct() ?? this.#res
    const sent = (error?: Error | null) => {
      if (!error) discard(bytes)
    }
    if (!this.#framed) return out.write(bytes, sent)
    out.cork()
    out.write(`${bytes.length.toString(16)}\r\n`, 'latin1')
    out.write(bytes, sent)
    const isTaken = out.write('\r\n', 'latin1')
    out.uncork()
    return isTaken
  }

  drained(): Promise<void> {
    if (this.#res.destroyed || !this.#waits()) return Promise.resolve()
    this.#draining ??= this.#waitForDrain()
    return this.#draining
  }

  end(): void {
    if (this.#res.destroyed) return
    if (this.#framed) this.#res.end('0\r\n\r\n', 'latin1')
    else this.#res.end()
  }

  /** The socket, to write past the response, which would cork and count what is framed already: saves 2 µs an event. Undefined until the answers before this one are written. */
  #direct(): Socket | undefined {
    if (!this.#mayGoDirect) return undefined
    const { socket } = this.#res
    const isItsTurn =
      socket?.writable === true && this.#res.writableLength === socket.writableLength
    return isItsTurn ? socket : undefined
  }

  #waits(): boolean {
    return this.#res.writableNeedDrain || this.#res.socket?.writableNeedDrain === true
  }

  #waitForDrain(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const res = this.#res
    const { socket } = res
    const done = () => {
      if (!res.destroyed && this.#waits()) return
      res.off('drain', done).off('close', done)
      socket?.off('drain', done)
      this.#draining = undefined
      this.#measure()
      resolve()
    }
    res.on('drain', done).on('close', done)
    socket?.on('drain', done)
    return promise
  }
}
