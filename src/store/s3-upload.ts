// Puts a stream of unknown length into an S3 store: a small one as one object, a larger one
// in parts. Memory is bounded by the parts, which are reused; the stream is read as fast as
// parts go out. Not by lib-storage, which allocates every part anew outside the heap, and
// only collections of the whole heap free that: 6 ms of CPU a MiB, not 3, and 100 MiB more.

import type { CompletedPart } from '@aws-sdk/client-s3'
import type { Readable } from 'node:stream'
import { discard } from '../sharing/discard.ts'
import { storageError } from './store.ts'

interface S3UploadOptions {
  readonly calls: UploadCalls
  readonly partBytes: number
  /** Parts in memory at a time: one is being filled, the others are on their way. */
  readonly concurrency: number
  /** How long a call may take, besides the time for its bytes. */
  readonly answerMs: number
  /** When the upload ends early, calls under way are cut after so long. */
  readonly patienceMs: number
  readonly signal?: AbortSignal | undefined
}

/** Calls to the server about one object. The content's memory is reused once the call settles. */
export interface UploadCalls {
  put(content: Buffer, cut: AbortSignal): Promise<void>
  /** Returns the upload's id. */
  create(cut: AbortSignal): Promise<string>
  part(upload: string, part: NumberedPart, cut: AbortSignal): Promise<CompletedPart>
  complete(upload: string, parts: readonly CompletedPart[], cut: AbortSignal): Promise<void>
  /** Aborts an upload; called once, when no part of it is on its way. */
  abort(upload: string): Promise<void>
}

export interface NumberedPart {
  readonly number: number
  readonly content: Buffer
}

/** Rejects with the content's own error as it is, or the signal's reason, or as a failure of the store. */
export async function uploadStream(content: Readable, options: S3UploadOptions): Promise<void> {
  const { signal, calls } = options
  signal?.throwIfAborted()
  const wire = wireOf(options)
  const leave = () => wire.end(signal?.reason)
  const ignore = () => undefined // the loop that reads the content gets it too
  content.on('error', ignore)
  signal?.addEventListener('abort', leave, { once: true })
  try {
    // The content may wait for a client that sends nothing, long after a part has failed.
    await Promise.race([send(content, options, wire), wire.ended])
  } catch (error) {
    wire.end(error)
    content.destroy()
    await wire.settled()
    if (wire.uploadId !== undefined) await calls.abort(wire.uploadId)
    throw error
  } finally {
    signal?.removeEventListener('abort', leave)
    content.off('error', ignore)
  }
}

async function send(content: Readable, options: S3UploadOptions, wire: UploadWire): Promise<void> {
  const { calls, concurrency, partBytes } = options
  const outbox = outboxOf(calls, wire)
  const free: UploadPart[] = []
  let part = new UploadPart(partBytes)
  let made = 1
  const next = async () => {
    for (;;) {
      const one = free.pop()
      if (one) return one
      if (made++ < concurrency) return new UploadPart(partBytes, partBytes)
      await outbox.oneSent()
    }
  }
  for await (const piece of content as AsyncIterable<Buffer>) {
    for (let taken = 0; taken < piece.length;) {
      if (part.isFull) {
        await outbox.send(part, (sent) => void free.push(sent))
        part = await next()
      }
      taken += part.take(piece.subarray(taken))
    }
    discard(piece)
  }
  await outbox.sendLast(part)
}

/** A part that is being filled. The first part's memory grows, since the object may be small. The memory is reused. */
class UploadPart {
  readonly #most: number
  #memory: ArrayBuffer
  #content: Buffer
  #bytes = 0

  constructor(mostBytes: number, firstBytes = 0) {
    this.#most = mostBytes
    this.#memory = new ArrayBuffer(firstBytes)
    this.#content = Buffer.from(this.#memory)
  }

  get isFull(): boolean {
    return this.#bytes === this.#most
  }

  /** Returns how many bytes fitted. */
  take(piece: Buffer): number {
    const end = Math.min(this.#bytes + piece.length, this.#most)
    if (end > this.#memory.byteLength) {
      this.#memory = this.#memory.transfer(Math.min(this.#most, Math.max(end, 2 * this.#bytes)))
      this.#content = Buffer.from(this.#memory)
    }
    const taken = piece.copy(this.#content, this.#bytes)
    this.#bytes = end
    return taken
  }

  content(): Buffer {
    return this.#content.subarray(0, this.#bytes)
  }

  clear(): void {
    this.#bytes = 0
  }
}

interface PartQueue {
  /** Begins to send; `sent` gets the part when it may be filled again. */
  send(part: UploadPart, sent: (part: UploadPart) => void): Promise<void>
  oneSent(): Promise<unknown>
  /** Sends the last part, and makes the object. */
  sendLast(part: UploadPart): Promise<void>
}

function outboxOf(calls: UploadCalls, wire: UploadWire): PartQueue {
  const done: CompletedPart[] = []
  const underWay = new Set<Promise<void>>()
  let number = 0
  const sendPart = async (upload: string, part: UploadPart) => {
    const numbered = { number: ++number, content: part.content() }
    done.push(await wire.call(numbered.content, (cut) => calls.part(upload, numbered, cut)))
    part.clear()
  }
  // The id is set within the call, so that it is known when the wire has settled: the upload may have to be aborted.
  const created = () => wire.call(nothing, async (cut) => (wire.uploadId = await calls.create(cut)))
  return {
    async send(part, sent) {
      const upload = wire.uploadId ?? (await created())
      const delivery = sendPart(upload, part).then(() => {
        underWay.delete(delivery)
        sent(part)
      })
      delivery.catch(() => undefined) // the wire has ended because of it
      underWay.add(delivery)
    },
    oneSent: () => Promise.race(underWay),
    async sendLast(part) {
      const upload = wire.uploadId
      if (upload === undefined) {
        wire.allIsSent()
        const content = part.content()
        return wire.call(content, (cut) => calls.put(content, cut))
      }
      await Promise.all([...underWay, sendPart(upload, part)])
      wire.allIsSent()
      const parts = done.toSorted((a, b) => (a.PartNumber ?? 0) - (b.PartNumber ?? 0))
      await wire.call(nothing, (cut) => calls.complete(upload, parts, cut))
    },
  }
}

const nothing = Buffer.alloc(0)

/** A call that sends more slowly than this is given up. */
const slowestBytesPerMs = 128

export function sendingMs({ length }: Uint8Array): number {
  return Math.ceil(length / slowestBytesPerMs)
}

interface UploadWire {
  uploadId?: string
  /** Rejects, with the reason, when the upload ends early. */
  readonly ended: Promise<never>
  /** Runs a call within its time; the first call that fails ends the upload. */
  call<T>(content: Buffer, run: (cut: AbortSignal) => Promise<T>): Promise<T>
  /** The next call makes the object: from here on, only a failed call ends the upload. */
  allIsSent(): void
  /** Begins no further call; calls under way have only `patienceMs` more. */
  end(reason: unknown): void
  /** Resolves when no call is under way. */
  settled(): Promise<void>
}

function wireOf({ answerMs, patienceMs }: S3UploadOptions): UploadWire {
  const cut = new AbortController()
  const ended = Promise.withResolvers<never>()
  const underWay = new Set<Promise<unknown>>()
  let state: 'open' | 'all sent' | 'ended' = 'open'
  const end = (reason: unknown) => {
    if (state === 'ended') return
    state = 'ended'
    ended.reject(reason)
    setTimeout(() => cut.abort(), patienceMs).unref()
  }
  return {
    ended: ended.promise,
    async call(content, run) {
      if (state === 'ended') throw new Error('the upload has ended')
      const late = AbortSignal.timeout(answerMs + sendingMs(content))
      const running = run(AbortSignal.any([cut.signal, late]))
      underWay.add(running)
      try {
        return await running
      } catch (error) {
        end(storageError(error))
        throw error
      } finally {
        underWay.delete(running)
      }
    },
    allIsSent: () => void (state = state === 'open' ? 'all sent' : state),
    end: (reason) => (state === 'open' ? end(reason) : undefined),
    async settled() {
      while (underWay.size > 0) await Promise.allSettled(underWay)
    },
  }
}
