// The files of messages, by their rows and bytes: files that a client names are
// looked up, files that a model is to see are loaded, images that came within a
// message are stored. A few at a time; a failure is thrown when all work has ended.

import { GatewayError, asGatewayError, hasCode } from '../errors.ts'
import { sha256InTurns } from '../http/digest.ts'
import { isId } from '../ids.ts'
import type { FileReference } from './file-reference.ts'
import type { FileRow } from './file-row.ts'
import type { FileBook } from './files.ts'
import { unlessAborted } from '../sharing/patience.ts'
import type { KeptFile, Shelf } from './shelf.ts'

/** The part of a shelf that messages need. */
export type MessageShelf = Pick<Shelf, 'book' | 'keep' | 'load'>

const atOnce = 4

export interface NamedFiles {
  readonly session: string
  /** File id → where in the body it is named. */
  readonly named: ReadonlyMap<string, string>
}

/** Sends in this tick. Throws `file_not_found`, of another session's files too, and `file_expired`. */
export async function readNamed(
  { book }: Pick<MessageShelf, 'book'>,
  ref: string,
  { session, named }: NamedFiles,
): Promise<ReadonlyMap<string, FileRow>> {
  const ids = [...named.keys()].filter((id) => isId('file', id))
  const rows = ids.length > 0 ? await book.readMany(ref, ids) : []
  const found = new Map(rows.flatMap((row) => (row ? [[row.id, row] as const] : [])))
  for (const [id, param] of named) {
    const row = found.get(id) ?? (await readOne(book, ref, { id, param }))
    if (row.session !== session) throw notHere(id, param)
    found.set(id, row)
  }
  return found
}

/** Reads a file that has no row, to throw the reason. */
async function readOne(
  book: FileBook,
  ref: string,
  { id, param }: { readonly id: string; readonly param: string },
): Promise<FileRow> {
  if (!isId('file', id)) throw notHere(id, param)
  try {
    return await book.read(ref, id)
  } catch (thrown) {
    const { code, message } = asGatewayError(thrown)
    if (code === 'file_not_found') throw notHere(id, param)
    if (code === 'file_expired') throw new GatewayError(code, { message, param })
    throw thrown
  }
}

function notHere(id: string, param: string): GatewayError {
  const message = `There is no file ${JSON.stringify(id.slice(0, 64))} in this session. Upload it with this session_id.`
  return new GatewayError('file_not_found', { param, message })
}

export interface WantedFiles {
  /** Files of the new turns: without them, the message would not be what the client sent. */
  readonly fresh: readonly FileReference[]
  /** Files of earlier turns: a client may have deleted them since. */
  readonly older: readonly FileReference[]
}

export interface Loading extends WantedFiles {
  /** When the signal aborts, its reason is thrown, and reads under way are no longer waited for. */
  readonly signal: AbortSignal
}

/** Contents by file id, without missing files of earlier turns. Throws `file_not_found`, `storage_unavailable`. */
export async function loadWanted(
  shelf: Pick<MessageShelf, 'book' | 'load'>,
  ref: string,
  { fresh, older, signal }: Loading,
): Promise<Map<string, Buffer>> {
  const wanted = new Map([...older, ...fresh].map((file) => [file.file_id, file]))
  const needed = new Set(fresh.map(({ file_id }) => file_id))
  const contents = new Map<string, Buffer>()
  if (wanted.size === 0) return contents
  const rows = await shelf.book.readMany(ref, [...wanted.keys()])
  const there = new Set(rows.map((row) => row?.id))
  await each([...wanted.values()], async ({ file_id, bytes }) => {
    signal.throwIfAborted()
    const content = there.has(file_id)
      ? await unlessAborted(loaded(shelf.load(ref, file_id)), signal)
      : undefined
    if (content?.length === bytes) contents.set(file_id, content)
    else if (needed.has(file_id)) throw new GatewayError('file_not_found')
  })
  return contents
}

async function loaded(loading: Promise<Buffer>): Promise<Buffer | undefined> {
  try {
    return await loading
  } catch (error) {
    if (hasCode(error, 'file_not_found')) return undefined
    throw error
  }
}

/** An image that came within a message, with a new file id. */
export interface NewImage extends Pick<FileRow, 'id' | 'filename' | 'contentType'> {
  readonly base64: string
}

export type Keeping = Omit<KeptFile, 'id' | 'filename' | 'contentType' | 'sha256'>

/** Stores images; returns their contents by id. Throws `storage_unavailable`, `storage_quota_exceeded`; some images may be stored then. */
export async function keepImages(
  shelf: Pick<MessageShelf, 'keep'>,
  images: readonly NewImage[],
  keeping: Keeping,
): Promise<Map<string, Buffer>> {
  const contents = new Map<string, Buffer>()
  await each(images, async ({ base64, ...image }) => {
    const content = Buffer.from(base64, 'base64')
    const sha256 = await sha256InTurns(content, { ref: keeping.ref, encoding: 'hex' })
    await shelf.keep(content, { ...keeping, ...image, sha256 })
    contents.set(image.id, content)
  })
  return contents
}

/** Removes images, whether they were stored or not. An image that can't be removed now stays until its session is deleted. */
export async function dropImages(
  { book }: Pick<MessageShelf, 'book'>,
  ref: string,
  images: readonly Pick<NewImage, 'id'>[],
): Promise<void> {
  await each(images, ({ id }) => book.remove(ref, id).catch(() => undefined))
}

/** After the first failure no further item is begun; the failure is thrown when all items under way have ended. */
async function each<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const rest = items.values()
  let isOver = false
  const worker = async () => {
    for (const item of rest) {
      if (isOver) return
      try {
        await work(item)
      } catch (error) {
        isOver = true
        throw error
      }
    }
  }
  const ended = await Promise.allSettled(Array.from({ length: atOnce }, worker))
  for (const one of ended) if (one.status === 'rejected') throw one.reason
}
