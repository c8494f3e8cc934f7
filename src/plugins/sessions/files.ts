// What a send does with files. Before the hold, it looks up the files that the message names. Once the message is
// stored, it reads all files that the model is to see, and stores the images that came within the message.

import type { ChatRequest } from '../../chat/request.ts'
import { GatewayError } from '../../errors.ts'
import { refOf } from '../../exchange.ts'
import type { Exchange } from '../../exchange.ts'
import { dropImages, keepImages, loadWanted, readNamed } from '../../files/message-files.ts'
import type { NewImage } from '../../files/message-files.ts'
import type { FileRow } from '../../files/file-row.ts'
import { quotaOf } from '../../accounts/plan.ts'
import type { Shelf } from '../../files/shelf.ts'
import type { Gateway } from '../../plugin.ts'
import type { Filling } from '../../sessions/sending/prepare.ts'
import { idsOf } from './route.ts'

/**
 * Reads the rows of the files that a send names. `named` has, by a file's id, its path in the body. The call goes to
 * Redis in this tick; the caller may await the result later.
 */
export function readFiles(
  gateway: Gateway,
  x: Exchange,
  named: ReadonlyMap<string, string>,
): Promise<ReadonlyMap<string, FileRow>> {
  const { session } = idsOf(x)
  const reading = readNamed(shelfOf(gateway), refOf(x), { session, named })
  reading.catch(() => undefined) // the caller gets the error when it awaits `reading`
  return reading
}

/**
 * Makes the request with its files, within the time for a first byte, because the client has got nothing yet. Throws
 * `overloaded`, `file_not_found`, `storage_unavailable`, `storage_quota_exceeded`.
 */
export async function fillFiles(
  gateway: Gateway,
  x: Exchange,
  filling: Filling,
): Promise<ChatRequest> {
  const shelf = shelfOf(gateway)
  const ref = refOf(x)
  const { session } = idsOf(x)
  x.memory.take(filling.bytes)
  const { signal, end } = timeOf(gateway, x)
  try {
    const loaded = await loadWanted(shelf, ref, { ...filling, signal })
    const keeping = { ref, session, ...quotaOf(gateway.config, x), signal }
    const kept = await keepImages(shelf, filling.images, keeping)
    return await filling.request(new Map([...loaded, ...kept]))
  } finally {
    end()
  }
}

function timeOf({ config }: Gateway, x: Exchange) {
  const late = new AbortController()
  const onLate = () => late.abort(new GatewayError('storage_unavailable'))
  const timer = setTimeout(onLate, config.limits.firstByteMs)
  return { signal: AbortSignal.any([x.signal, late.signal]), end: () => clearTimeout(timer) }
}

/** Removes the images of a message that is taken back. */
export async function dropFiles(
  gateway: Gateway,
  x: Exchange,
  images: readonly Pick<NewImage, 'id'>[],
): Promise<void> {
  if (images.length > 0) await dropImages(shelfOf(gateway), refOf(x), images)
}

function shelfOf({ shelf }: Gateway): Shelf {
  if (!shelf) throw new TypeError('files without a shelf')
  return shelf
}
