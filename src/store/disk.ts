// Objects as files below one folder: names with slashes are paths. An object is
// there as a whole or not at all, even after a power cut, and an object that `put`
// has acknowledged stays. The one limit: no object `a` beside an object `a/b`.

import { randomBytes } from 'node:crypto'
import { mkdir, open, readdir, readFile, rename, rm, statfs } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { unlessAborted } from '../sharing/patience.ts'
import { discard } from '../sharing/discard.ts'
import { GatewayError, hasCode } from '../errors.ts'
import { checkName, checkPrefix, isName, NoSuchObject, storageError } from './store.ts'
import type { ByteRange, ObjectStore, PutOptions } from './store.ts'

/** Makes the folder at the first put. Keeps `reserveBytes` of its file system free for others. */
export function diskStore(path: string, reserveBytes = 0): ObjectStore {
  const root = resolve(path)
  const room = new DiskRoom(root, reserveBytes)
  return {
    put: (name, content, options) => put(root, name, { content, room, ...options }),
    async get(name) {
      const file = pathOf(root, name)
      return readFile(file).catch((error: unknown) => refuse(name, error))
    },
    read: (name, range) => openToRead(root, name, range),
    remove: (name) => remove(root, name),
    async abandon(name) {
      await remove(root, name)
      for (const left of await temporaries(root)) {
        if (left.of === name) await rm(left.path, { force: true }).catch(fail)
      }
    },
    async list(prefix) {
      checkPrefix(prefix)
      const names: string[] = []
      const folder = prefix.split('/').slice(0, -1)
      await walk(root, folder, (name) => name.startsWith(prefix) && names.push(name)).catch(fail)
      return names.sort()
    },
    async unfinished(prefix) {
      checkPrefix(prefix)
      const names = (await temporaries(root)).map(({ of }) => of)
      return names.filter((name) => name.startsWith(prefix)).sort()
    },
    close: async () => undefined,
  }
}

/** No name may begin like this, so half-written files are never listed. */
const temporaryFolder = '.tmp'

/** Stands for the slash in a temporary file's name: no object name may contain it. */
const slash = '%'

/**
 * Downloads on loopback, MiB/s: 64 KiB 650, 128 KiB 900, 256 KiB 850, 512 KiB 1600, 1 MiB 1600. Each download takes two
 * or three chunks of memory.
 */
const readChunkBytes = 512 * 1024

/** Bytes of a stream that are taken ahead while the disk is still writing. */
const writeAheadBytes = 1024 * 1024

function pathOf(root: string, name: string): string {
  checkName(name)
  return join(root, ...name.split('/'))
}

interface Putting extends PutOptions {
  readonly content: Uint8Array | Readable
  readonly room: DiskRoom
}

async function put(root: string, name: string, putting: Putting): Promise<void> {
  const { signal, leavesReserve, room } = putting
  const target = pathOf(root, name)
  signal?.throwIfAborted()
  const unique = randomBytes(12).toString('hex')
  const fresh = join(
    root,
    temporaryFolder,
    `${name.replaceAll('/', slash)}${slash}${slash}${unique}`,
  )
  try {
    await mkdir(dirname(fresh), { recursive: true, mode: 0o700 }).catch(fail)
    if (leavesReserve) await room.check()
    await writeDurably(fresh, putting)
    await publish(fresh, target).catch(fail)
  } catch (error) {
    // When this fails, `abandon` finds the file.
    await rm(fresh, { force: true }).catch(() => undefined)
    throw error
  }
}

async function writeDurably(path: string, putting: Putting): Promise<void> {
  const { content, signal, leavesReserve, room } = putting
  const check = leavesReserve ? () => room.check() : undefined
  const file = await open(path, 'wx', 0o600).catch(fail)
  try {
    if (content instanceof Readable) await writeStream(file, content, { signal, check })
    else await file.writeFile(content).catch(fail)
    await file.sync().catch(fail)
  } finally {
    await file.close().catch(fail)
  }
}

interface Writing {
  readonly signal: AbortSignal | undefined
  /** Called before each piece. */
  readonly check: (() => Promise<void> | undefined) | undefined
}

/** Rejects with the content's own error as it is, or the signal's reason; with anything else as a failure of the store. */
async function writeStream(
  file: FileHandle,
  content: Readable,
  { signal, check }: Writing,
): Promise<void> {
  const own: { error?: unknown } = {}
  const chunks = async function* () {
    try {
      for await (const chunk of content) {
        await check?.()
        yield chunk as Uint8Array
      }
    } catch (error) {
      own.error = error
      throw error
    }
  }
  const leave = () => void content.destroy()
  signal?.addEventListener('abort', leave, { once: true })
  const written = pipeline(chunks, writerTo(file), { ...(signal && { signal }) })
  try {
    // The pipeline alone would wait for content that sends nothing.
    await (signal ? unlessAborted(written, signal) : written)
  } catch (error) {
    written.catch(() => undefined) // the same error, or a consequence of it
    if (signal?.aborted) throw signal.reason
    throw 'error' in own ? own.error : storageError(error)
  } finally {
    signal?.removeEventListener('abort', leave)
  }
}

/** Not the handle's own write stream: that one ends only by closing the file, which has to be synced first. */
function writerTo(file: FileHandle): Writable {
  const write = (chunks: readonly Uint8Array[], done: (error?: Error) => void) =>
    void writeAll(file, chunks).then(() => done(), done)
  return new Writable({
    highWaterMark: writeAheadBytes,
    write: (chunk: Uint8Array, _encoding, done) => write([chunk], done),
    // Writes together all chunks that came while the disk was busy: 1.7 ms of CPU a MiB; one by one, 2.1.
    writev: (items: readonly { readonly chunk: Uint8Array }[], done) => {
      const chunks = items.map(({ chunk }) => chunk)
      write(chunks, done)
    },
  })
}

async function writeAll(file: FileHandle, chunks: readonly Uint8Array[]): Promise<void> {
  const { bytesWritten } = await file.writev([...chunks])
  const bytes = chunks.reduce((sum, { length }) => sum + length, 0)
  if (bytesWritten < bytes) await file.writeFile(Buffer.concat(chunks).subarray(bytesWritten))
  for (const chunk of chunks) discard(chunk)
}

async function publish(fresh: string, target: string): Promise<void> {
  const made = await mkdir(dirname(target), { recursive: true, mode: 0o700 })
  await rename(fresh, target)
  await syncFolders(dirname(target), made ? dirname(made) : dirname(target))
}

/** Syncs all folders up to the one that was there before: a new name is only safe with the folder that lists it. */
async function syncFolders(from: string, to: string): Promise<void> {
  for (let folder = from; ; folder = dirname(folder)) {
    const handle = await open(folder, 'r')
    try {
      await handle.sync()
    } finally {
      await handle.close()
    }
    if (folder === to || folder === dirname(folder)) return
  }
}

async function openToRead(root: string, name: string, range?: ByteRange): Promise<Readable> {
  const file = await open(pathOf(root, name), 'r').catch((error: unknown) => refuse(name, error))
  try {
    const stat = await file.stat()
    if (!stat.isFile()) throw new NoSuchObject(name)
    const { start = 0, end: last = Infinity } = range ?? {}
    const end = Math.min(last, stat.size - 1)
    if (end >= start) return file.createReadStream({ start, end, highWaterMark: readChunkBytes })
    await file.close()
    return Readable.from([])
  } catch (error) {
    await file.close()
    throw storageError(error)
  }
}

async function remove(root: string, name: string): Promise<void> {
  const path = pathOf(root, name)
  try {
    await rm(path)
    // Else a power cut could bring the file back after its row is gone.
    await syncFolders(dirname(path), dirname(path))
  } catch (error) {
    if (!isMissing(error)) fail(error)
  }
}

interface Temporary {
  readonly path: string
  readonly of: string
}

/** All temporary files: those of puts under way and those left by a kill -9, never many. */
async function temporaries(root: string): Promise<readonly Temporary[]> {
  const folder = join(root, temporaryFolder)
  const files = await readdir(folder).catch((error: unknown) =>
    isMissing(error) ? [] : fail(error),
  )
  return files.flatMap((file) => {
    const of = file.slice(0, file.lastIndexOf(slash + slash)).replaceAll(slash, '/')
    return isName(of) ? [{ path: join(folder, file), of }] : []
  })
}

async function walk(
  root: string,
  folder: readonly string[],
  found: (name: string) => void,
): Promise<void> {
  const entries = await readdir(join(root, ...folder), { withFileTypes: true }).catch(
    (error: unknown) => {
      if (isMissing(error)) return []
      throw error
    },
  )
  for (const entry of entries) {
    const parts = [...folder, entry.name]
    if (!isName(parts.join('/'))) continue
    if (entry.isDirectory()) await walk(root, parts, found)
    else if (entry.isFile()) found(parts.join('/'))
  }
}

/** A folder in place of a file, or a file in place of a folder, also means that the object is missing. */
function isMissing(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR', 'EISDIR', 'ERR_FS_EISDIR'].some((code) => hasCode(error, code))
}

function refuse(name: string, error: unknown): never {
  throw isMissing(error) ? new NoSuchObject(name, { cause: error }) : storageError(error)
}

function fail(error: unknown): never {
  throw storageError(error)
}

const lookEveryMs = 1000

/**
 * Whether a file system has room for more files. The append-only file of Redis is mostly on the same one: a full file
 * system would stop all accounts. What arrives between two looks, in one second, may use up some of the reserve.
 */
export class DiskRoom {
  readonly #folder: string
  readonly #reserveBytes: number
  #lookedAt = -Infinity

  /** For the file system of the folder, which must exist before the first check. */
  constructor(folder: string, reserveBytes: number) {
    this.#folder = folder
    this.#reserveBytes = reserveBytes
  }

  /** Throws `storage_unavailable`. Returns undefined when the last check was less than a second ago. */
  check(): Promise<void> | undefined {
    const isKnown = this.#reserveBytes === 0 || performance.now() - this.#lookedAt < lookEveryMs
    return isKnown ? undefined : this.#look()
  }

  async #look(): Promise<void> {
    const stats = await statfs(this.#folder).catch(() => undefined) // the system does not tell
    const free = stats ? stats.bavail * stats.bsize : Infinity
    if (free < this.#reserveBytes) {
      const cause = new Error(`${free} bytes are free, ${this.#reserveBytes} are kept for others`)
      throw new GatewayError('storage_unavailable', { cause })
    }
    this.#lookedAt = performance.now()
  }
}
