// One append-only ndjson file: a line for each key, and a `done` line for each removed key. A rewrite keeps only the
// live lines. One write and one fsync take all that waits. While the disk refuses writes, lines stay in memory, and are
// written when the disk has room again. Knows nothing of orders, nor of other processes' files.

import { open, rename, rm, stat, unlink } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'

const compactAboveBytes = 4 * 1024 * 1024
/** This much must fit before the disk counts as having room again; with less room, the next line could fill it. */
const probe = Buffer.alloc(64 * 1024, ' ')

/** Called in the middle of requests: must be quick and must not throw. */
export interface SpoolEvents {
  /** Called once when the disk begins to refuse ledger writes: orders that need it wait in memory. */
  spoolFailed?(cause: unknown): void
  /** Called once when that is over. */
  spoolWorks?(failedMs: number): void
}

interface Waiting {
  readonly text: string
  /** Given where `text` is a live line. */
  readonly key?: string
  /** Whether to try a disk that refused. */
  readonly isRetry?: boolean
  done(): void
  failed(error: unknown): void
}

interface DiskFault {
  readonly error: unknown
  readonly since: number
}

export class SpoolFile {
  readonly path: string
  readonly #events: SpoolEvents
  readonly #live = new Map<string, string>()
  /** Keys of lines that are in memory alone, because the disk refused them. */
  readonly #unwritten = new Set<string>()
  #file: FileHandle
  #waiting: Waiting[] = []
  #flushing: Promise<void> | undefined
  #bytes = 0
  #compactAtBytes = compactAboveBytes
  /** Another process has taken the file: the live lines go to a new one. */
  #isTaken = false
  /** A write failed: the file may end in half a line, which would spoil the next one. */
  #fault: DiskFault | undefined

  static async create(path: string, events: SpoolEvents = {}): Promise<SpoolFile> {
    return new SpoolFile(path, await open(path, 'ax', 0o600), events)
  }

  constructor(path: string, file: FileHandle, events: SpoolEvents = {}) {
    this.path = path
    this.#file = file
    this.#events = events
  }

  /** How many lines are live. */
  get size(): number {
    return this.#live.size
  }

  /** How many live lines are not on the disk, because the disk refused them. */
  get unwritten(): number {
    return this.#unwritten.size
  }

  /** The disk refuses writes; only `retry` tries it again. */
  get isFailing(): boolean {
    return this.#fault !== undefined
  }

  /** Resolves when the line is on the disk. Where it rejects, the line waits in memory until the disk has room. */
  write(key: string, line: string): Promise<void> {
    this.#live.set(key, line)
    return this.#push({ key, text: `${line}\n` })
  }

  remove(key: string): void {
    this.#unwritten.delete(key)
    // If this `done` line is lost, a replay repeats the removed line, and does nothing worse.
    if (this.#live.delete(key)) {
      this.#push({ text: `${JSON.stringify({ done: key })}\n` }).catch(() => undefined)
    }
  }

  /** Shows other processes that this process lives. */
  async touch(): Promise<void> {
    const now = new Date()
    await this.#file.utimes(now, now)
    const [own, found] = await Promise.all([
      this.#file.stat(),
      stat(this.path).catch(() => undefined),
    ])
    if (found?.ino === own.ino) return
    // Another process took the file although this process lives, after a long freeze: go on in a new file of the same
    // name.
    this.#isTaken = true
    await this.#push({ text: '' })
  }

  /** Tries a disk that refused. Never rejects: the events report the result. */
  async retry(): Promise<void> {
    if (this.#fault) await this.#push({ text: '', isRetry: true }).catch(() => undefined)
  }

  async close(): Promise<void> {
    await this.#flushing
    await this.retry()
    const isEmpty = this.#live.size === 0
    await this.#file.close()
    if (isEmpty) await unlink(this.path).catch(() => undefined)
  }

  #push(item: Omit<Waiting, 'done' | 'failed'>): Promise<void> {
    const written = new Promise<void>((done, failed) =>
      this.#waiting.push({ ...item, done, failed }),
    )
    this.#flushing ??= this.#flush()
    return written
  }

  async #flush(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting
      this.#waiting = []
      try {
        await this.#writeBatch(batch)
        this.#works()
        for (const { done } of batch) done()
      } catch (error) {
        this.#fails(error, batch)
        for (const { failed } of batch) failed(error)
      }
    }
    this.#flushing = undefined
  }

  #works(): void {
    if (!this.#fault) return
    this.#events.spoolWorks?.(performance.now() - this.#fault.since)
    this.#fault = undefined
    this.#unwritten.clear()
  }

  #fails(error: unknown, batch: readonly Waiting[]): void {
    for (const { key } of batch) {
      if (key !== undefined && this.#live.has(key)) this.#unwritten.add(key)
    }
    if (this.#fault) return
    this.#fault = { error, since: performance.now() }
    this.#events.spoolFailed?.(error)
  }

  async #writeBatch(batch: readonly Waiting[]): Promise<void> {
    const mayTry = batch.some(({ isRetry }) => isRetry)
    if (this.#fault && !mayTry) throw this.#fault.error
    const shrinks = this.#live.size === 0 || this.#bytes > this.#compactAtBytes
    const isUnusable = this.#isTaken || this.#fault !== undefined
    if (shrinks || isUnusable) return this.#rewrite()
    const text = batch.map((one) => one.text).join('')
    await this.#file.appendFile(text)
    this.#bytes += Buffer.byteLength(text)
    await this.#file.datasync()
  }

  /** Writes only the live lines. The new file is complete before it takes the old one's place. */
  async #rewrite(): Promise<void> {
    const text = [...this.#live.values()].map((line) => `${line}\n`).join('')
    const path = `${this.path}.new`
    const fresh = await open(path, 'w', 0o600)
    try {
      if (this.#fault) await proveRoom(fresh)
      await fresh.appendFile(text)
      await fresh.datasync()
      await rename(path, this.path)
    } catch (error) {
      await fresh.close().catch(() => undefined) // the error of its disk is thrown below
      await rm(path, { force: true }).catch(() => undefined) // the next rewrite truncates it in any case
      throw error
    }
    const old = this.#file
    this.#file = fresh
    this.#isTaken = false
    this.#bytes = Buffer.byteLength(text)
    this.#compactAtBytes = Math.max(compactAboveBytes, 2 * this.#bytes)
    await old.close().catch(() => undefined) // nothing in it is needed any more
  }
}

async function proveRoom(file: FileHandle): Promise<void> {
  const { bytesWritten } = await file.write(probe, 0, probe.length, 0)
  if (bytesWritten < probe.length) throw new Error('the disk has hardly any room')
  await file.datasync()
  await file.truncate(0)
}
