// Watches a client that is slow to take its answer. Promises that the untaken bytes fit in its account's share of
// memory, and that a client which takes nothing is dropped at most a fifth of `readerStallMs` late. Slows nobody down.

import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { plain } from '../plain.ts'
import type { SharedPool } from '../sharing/shared-pool.ts'

/** An account's share of the memory for bytes that clients have not taken. */
export interface Unsent {
  /** Returns false when the share has no room for this. */
  take(bytes: number): boolean
  give(bytes: number): void
}

export function shareOf(pool: SharedPool, ref: string): Unsent {
  return { take: (bytes) => pool.take(ref, bytes), give: (bytes) => pool.give(ref, bytes) }
}

export interface ReaderLimits {
  /** A client that takes nothing for this long is dropped. */
  readonly readerStallMs: number
  /** Without it, a client is dropped by time alone. */
  readonly unsent?: Unsent | undefined
  /** Called for each client that is dropped. */
  onDrop?(): void
}

/**
 * Watches until the response closes. Call it once for a response. Call the function that it returns whenever the client
 * is slow to take what was written, and again when the client has taken it.
 */
export function watchReader(res: ServerResponse, limits: ReaderLimits): () => void {
  const { readerStallMs, unsent, onDrop } = limits
  /** What this response has taken from the share. */
  let sharedBytes = 0
  const drop = () => {
    onDrop?.()
    res.destroy()
  }
  const measure = () => {
    if (res.destroyed) return
    const more = res.writableLength - sharedBytes
    if (more < 0) unsent?.give(-more)
    const hasNoRoom = more > 0 && unsent?.take(more) === false
    if (hasNoRoom) return drop()
    sharedBytes += more
  }
  const isWaiting = () => {
    measure()
    return !res.destroyed && sharedBytes > 0
  }
  const watch = plain.has('write-queue') ? watchTimeout : watchQueue
  const stop = watch(res, { readerStallMs, isWaiting, drop })
  res.once('close', () => {
    stop()
    unsent?.give(sharedBytes)
    sharedBytes = 0
  })
  return measure
}

interface Watch {
  readonly readerStallMs: number
  /** Whether there are bytes that the client has not taken. */
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
    // Without a socket, this answer waits for an earlier one, and not for the client.
    const isStuck = socket !== null && waits && nowTaken === taken && nowQueued === queued
    if (!isStuck) since = performance.now()
    else if (performance.now() - since >= readerStallMs) return drop()
    taken = nowTaken
    queued = nowQueued
  }
  const looking = setInterval(look, readerStallMs / 10).unref()
  return () => clearInterval(looking)
}

/** Uses the socket's own time-out, which notices only in its second round, and over TLS sees only whole writes end. */
function watchTimeout(res: ServerResponse, { readerStallMs, isWaiting, drop }: Watch): () => void {
  res.setTimeout(readerStallMs, () => {
    if (isWaiting()) drop()
  })
  // The next answer on the connection must not have this time-out; after this, Node sets its own for an idle one.
  res.prependOnceListener('finish', () => res.setTimeout(0))
  return () => undefined
}

/**
 * The bytes of the current write that the system has not taken. One write can have megabytes, and `writableLength`
 * shrinks only when the whole write is done. Node's own socket time-out reads this, too. Under TLS a write goes to the
 * handle below (`_parent`) at once, and only that handle has the number.
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
