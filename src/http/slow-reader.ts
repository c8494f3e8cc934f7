// A client that is slow to take its answer. Promises that what it has not taken is within its account's share of memory,
// and that one which takes nothing is dropped a fifth of `readerStallMs` late at most. Does not slow anybody down.

import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { plain } from '../plain.ts'
import type { SharedPool } from '../sharing/shared-pool.ts'

/** An account's share of the memory for what clients have not taken. */
export interface Unsent {
  /** False where it has no more. */
  take(bytes: number): boolean
  give(bytes: number): void
}

export function shareOf(pool: SharedPool, ref: string): Unsent {
  return { take: (bytes) => pool.take(ref, bytes), give: (bytes) => pool.give(ref, bytes) }
}

export interface ReaderLimits {
  /** A client that takes nothing for so long is dropped. */
  readonly readerStallMs: number
  /** Not given, only time counts. */
  readonly unsent?: Unsent | undefined
  /** Told of each client that was. */
  onDrop?(): void
}

/**
 * Until the response closes. To be called once; what it returns is to be called whenever the client was slow to take
 * what was written, and when it has taken that.
 */
export function watchReader(res: ServerResponse, limits: ReaderLimits): () => void {
  const { readerStallMs, unsent, onDrop } = limits
  let held = 0
  const drop = () => {
    onDrop?.()
    res.destroy()
  }
  const measure = () => {
    if (res.destroyed) return
    const more = res.writableLength - held
    if (more < 0) unsent?.give(-more)
    else if (more > 0 && unsent?.take(more) === false) return drop()
    held += more
  }
  const isWaiting = () => {
    measure()
    return !res.destroyed && held > 0
  }
  const watch = plain.has('write-queue') ? watchTimeout : watchQueue
  const stop = watch(res, { readerStallMs, isWaiting, drop })
  res.once('close', () => {
    stop()
    unsent?.give(held)
    held = 0
  })
  return measure
}

interface Watch {
  readonly readerStallMs: number
  /** Whether the client has not taken all. */
  isWaiting(): boolean
  drop(): void
}

function watchQueue(res: ServerResponse, { readerStallMs, isWaiting, drop }: Watch): () => void {
  let taken = -1
  let queued = 0
  let since = performance.now()
  const look = () => {
    const waits = isWaiting()
    const { socket } = res
    if (res.destroyed) return
    const nowTaken = socket ? socket.bytesWritten - socket.writableLength : 0
    const nowQueued = socket ? queueOf(socket) : 0
    // Behind another answer it is not the client that waits.
    const isStuck = socket !== null && waits && nowTaken === taken && nowQueued === queued
    if (!isStuck) since = performance.now()
    else if (performance.now() - since >= readerStallMs) return drop()
    taken = nowTaken
    queued = nowQueued
  }
  const looking = setInterval(look, readerStallMs / 10).unref()
  return () => clearInterval(looking)
}

/** By the socket's own time-out, which takes two rounds to notice, and over TLS sees only whole writes go. */
function watchTimeout(res: ServerResponse, { readerStallMs, isWaiting, drop }: Watch): () => void {
  res.setTimeout(readerStallMs, () => {
    if (isWaiting()) drop()
  })
  // The next answer of the connection has no such bound; Node sets its own for an idle one behind this.
  res.prependOnceListener('finish', () => res.setTimeout(0))
  return () => undefined
}

/**
 * What the system has not taken of the write that is under way. One write can have megabytes, and `writableLength` shrinks
 * only when all of it is gone. Node's own socket time-out looks here too. Under TLS a write goes to the handle below at
 * once, and only that handle tells.
 */
function queueOf(socket: Socket): number {
  const handle: unknown = Reflect.get(socket, '_handle')
  const below: unknown = handle instanceof Object && Reflect.get(handle, '_parent')
  return sizeOf(handle) + sizeOf(below)
}

function sizeOf(handle: unknown): number {
  const size: unknown = handle instanceof Object && Reflect.get(handle, 'writeQueueSize')
  return typeof size === 'number' ? size : 0
}
