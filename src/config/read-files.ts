// The files that a configuration was made of, each with a digest of what was read: so it can be told whether the files
// have changed since. A file that could not be read is among them, because it may come later.

import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'

/** By absolute path. */
export type FileContents = ReadonlyMap<string, Uint8Array>

/** Digests by absolute path. */
export type FileDigests = ReadonlyMap<string, string>

export class ReadFiles {
  readonly #digests = new Map<string, string>()
  readonly #contents = new Map<string, Uint8Array>()
  readonly #whole: ReadFiles | undefined
  readonly #given: FileContents | undefined

  /** `given` is read in place of the files. */
  constructor({
    whole,
    given,
  }: { readonly whole?: ReadFiles; readonly given?: FileContents } = {}) {
    this.#whole = whole
    this.#given = given
  }

  get contents(): FileContents {
    return this.#contents
  }

  get digests(): FileDigests {
    return this.#digests
  }

  /** One digest for all files together. */
  get digest(): string {
    return digestOf([...this.#digests].flat().join('\n'))
  }

  /** Makes a part with digests of its own. The digest of what is read through it is noted here, too. */
  part(): ReadFiles {
    return new ReadFiles({ whole: this })
  }

  /** Rejects as `readFile` does. */
  async read(path: string): Promise<Buffer> {
    try {
      const given = this.#given?.get(path)
      const content = given ? Buffer.from(given) : await readFile(path)
      this.#contents.set(path, content)
      this.note(path, digestOf(content))
      return content
    } catch (error) {
      this.note(path, unreadable)
      throw error
    }
  }

  note(path: string, digest: string): void {
    this.#digests.set(path, digest)
    this.#whole?.note(path, digest)
  }
}

const unreadable = ''

/** The digests of these files as they are now. */
export async function digestsNow(paths: Iterable<string>): Promise<FileDigests> {
  const files = new ReadFiles()
  await Promise.all([...paths].map((path) => files.read(path).catch(() => undefined)))
  return files.digests
}

export function sameDigests(one: FileDigests, other: FileDigests): boolean {
  return one.size === other.size && [...one].every(([path, digest]) => other.get(path) === digest)
}

export function digestOf(content: Buffer | string): string {
  return hash('sha256', content, 'hex')
}
