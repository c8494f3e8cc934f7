// Customers who keep files: what was acknowledged is there, byte for byte, until it is deleted.

import { createHash } from 'node:crypto'
import type { FileObject } from '../../src/files/file-row.ts'
import { bytesOf } from '../../test/fixtures/content.ts'
import { formOf } from '../../test/fixtures/files-uploads.ts'
import { boundary } from '../../test/fixtures/multipart.ts'
import { Customer } from './customer.ts'
import type { Span } from './risks.ts'

const largest = 6 * 2 ** 20

interface Kept {
  readonly hash: string
  readonly at: Span
}

interface Deleted extends Kept {
  readonly isAcknowledged: boolean
}

export class Keeper extends Customer {
  /** By id. */
  readonly #kept = new Map<string, Kept>()
  /** By id: deletions that were asked for. */
  readonly #deleted = new Map<string, Deleted>()
  /** Of all uploads and deletions, answered or not. */
  readonly #changes: Span[] = []
  #session = ''

  async live(signal: AbortSignal): Promise<void> {
    this.#session = (await this.newSession()).id
    while (!signal.aborted) {
      const chance = this.random(4)
      if (chance < 2) await this.#upload()
      else await (chance === 2 ? this.#download() : this.#delete())
      await this.rest()
    }
  }

  async #upload(): Promise<void> {
    const size = this.random(this.random(4) === 0 ? largest : 100_000)
    const content = await bytesOf(size, this.random(1000))
    const body = formOf({ session: this.#session }, content)
    const headers = { 'content-type': `multipart/form-data; boundary=${boundary}` }
    const called = await this.call('/api/files/upload', { body, headers })
    this.#changes.push(called.at)
    if (called.status !== 201 || !called.isWhole) return
    const { id, bytes } = JSON.parse(called.bytes.toString()) as FileObject
    if (bytes !== size) this.breaks(`${id} has ${bytes} of ${size} bytes`)
    this.#kept.set(id, { hash: hashOf(content), at: called.at })
  }

  async #download(): Promise<void> {
    const id = this.#any()
    if (id === undefined) return
    const called = await this.call(`/api/files/${id}`)
    if (called.status === 200 && called.isWhole) this.#compare(id, called.bytes)
  }

  async #delete(): Promise<void> {
    const id = this.#any()
    if (id === undefined || this.#kept.size < 5) return
    const { hash = '' } = this.#kept.get(id) ?? {}
    this.#kept.delete(id)
    const { status, at } = await this.call(`/api/files/${id}`, { method: 'DELETE' })
    this.#changes.push(at)
    this.#deleted.set(id, { hash, at, isAcknowledged: status === 204 })
  }

  #any(): string | undefined {
    return [...this.#kept.keys()][this.random(Math.max(1, this.#kept.size))]
  }

  #compare(id: string, bytes: Buffer): void {
    const { hash } = this.#kept.get(id) ?? this.#deleted.get(id) ?? {}
    if (hashOf(bytes) !== hash) this.breaks(`${id} has other bytes than were uploaded`)
  }

  async verify(): Promise<void> {
    for (const [id, { at }] of this.#kept) {
      const called = await this.callUntil([200, 404], `/api/files/${id}`)
      if (called.status === 404) this.misses('files', `${id} was acknowledged, and is gone`, at)
      else this.#compare(id, called.bytes)
    }
    for (const [id, { at, isAcknowledged }] of this.#deleted) {
      const called = await this.callUntil([200, 404], `/api/files/${id}`)
      if (called.status === 404) continue
      this.#compare(id, called.bytes)
      if (isAcknowledged) this.misses('deletions', `${id} is back`, at)
    }
    this.files = this.#kept.size
  }

  /** Judges what the store and Redis do not have alike, by its line of files-left.ts. */
  judgeLeft(line: string): void {
    const { risks } = this.world
    const at = this.#changesIn(line)
    if (at.some((one) => risks.mayForget(one))) this.lost.push(line.replace(/:.*/, ''))
    else this.breaks(line)
  }

  /** Of the file that the line is about; of all files, for a list that another server of Redis has. */
  #changesIn(line: string): readonly Span[] {
    if (line.endsWith('something is due that nobody looks for')) return this.#changes
    if (!/^(an orphan|an unfinished upload|not what its row says):/.test(line)) return []
    const [id = ''] = /file_[0-9a-f]{32}/.exec(line) ?? []
    const deleted = this.#deleted.get(id)
    const madeAt = Number.parseInt(id.slice(5, 17), 16) - performance.timeOrigin
    const uploads = this.#changes.filter(({ from, to }) => from <= madeAt && madeAt <= to)
    return deleted ? [deleted.at, ...uploads] : uploads
  }

  files = 0
}

const hashOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')
