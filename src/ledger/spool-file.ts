// One append-only ndjson file: lines by key, and what is done, until only what is live is written anew. One write and one
// fsync for all that waits. Knows nothing of orders, nor of other processes' files.

import { open, rename, stat, unlink } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'

const compactAboveBytes = 4 * 1024 * 1024

interface Waiting {
  readonly text: string
  done(): void
  failed(error: unknown): void
}

export class SpoolFile {
  readonly path: string
  readonly #live = new Map<string, string>()
  #file: FileHandle
  #waiting: Waiting[] = []
  #flushing: Promise<void> | undefined
  #bytes = 0
  #compactAtBytes = compactAboveBytes
  /** A write failed: the file may end in half a line, which would spoil the next one. */
  #isTorn = false

  static async create(path: string): Promise<SpoolFile> {
    return new SpoolFile(path, await open(path, 'ax', 0o600))
  }

  constructor(path: string, file: FileHandle) {
    this.path = path
    this.#file = file
  }

  /** Lines that are live. */
  get size(): number {
    return this.#live.size
  }

  /** Resolves when the line is on the disk. */
  write(key: string, line: string): Promise<void> {
    this.#live.set(key, line)
    return this.#push(`${line}\n`)
  }

  remove(key: string): void {
    // Losing this line costs a replay, no more.
    if (this.#live.delete(key)) {
      this.#push(`${JSON.stringify({ done: key })}\n`).catch(() => undefined)
    }
  }

  /** Says that its process lives. */
  async touch(): Promise<void> {
    const now = new Date()
    await this.#file.utimes(now, now)
    const [own, found] = await Promise.all([
      this.#file.stat(),
      stat(this.path).catch(() => undefined),
    ])
    // Taken although we live, after a long freeze: go on in a file of the same name.
    if (found?.ino !== own.ino) await this.#rewrite()
  }

  async close(): Promise<void> {
    await this.#flushing
    const isEmpty = this.#live.size === 0
    await this.#file.close()
    if (isEmpty) await unlink(this.path).catch(() => undefined)
  }

  #push(text: string): Promise<void> {
    const written = new Promise<void>((done, failed) => this.#waiting.push({ text, done, failed }))
    this.#flushing ??= this.#flush()
    return written
  }

  async #flush(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting
      this.#waiting = []
      try {
        await this.#writeBatch(batch.map(({ text }) => text).join(''))
        for (const { done } of batch) done()
      } catch (error) {
        this.#isTorn = true
        for (const { failed } of batch) failed(error)
      }
    }
    this.#flushing = undefined
  }

  async #writeBatch(text: string): Promise<void> {
    const isLarge = this.#bytes > this.#compactAtBytes
    if (this.#live.size === 0 || isLarge || this.#isTorn) await this.#rewrite()
    else {
      await this.#file.appendFile(text)
      this.#bytes += Buffer.byteLength(text)
    }
    await this.#file.datasync()
  }

  /** Only what is live; the new file is whole before it takes the old one's place. */
  async #rewrite(): Promise<void> {
    const text = [...this.#live.values()].map((line) => `${line}\n`).join('')
    const fresh = await open(`${this.path}.new`, 'w', 0o600)
    await fresh.appendFile(text)
    await fresh.datasync()
    await rename(`${this.path}.new`, this.path)
    await this.#file.close()
    this.#file = fresh
    this.#isTorn = false
    this.#bytes = Buffer.byteLength(text)
    this.#compactAtBytes = Math.max(compactAboveBytes, 2 * this.#bytes)
  }
}
