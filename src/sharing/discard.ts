// Frees the memory of a Buffer that nobody needs any more. This memory is outside the JavaScript heap. If the engine
// has to free it, each 64 MiB of it cost a collection of the whole heap, and as much stays in use meanwhile.

import { plain } from '../plain.ts'

/** Frees the whole memory that the Buffer lies in, for all that share it. Must not be called while the system may still read it, as during a write. */
export function free({ buffer, byteLength }: Uint8Array): void {
  if (plain.has('freed-buffers')) return
  if (byteLength > 0 && buffer instanceof ArrayBuffer) buffer.transfer(0)
}

/** The same, but does nothing when the Buffer is a part of a larger memory. */
export function discard(bytes: Uint8Array): void {
  if (bytes.buffer.byteLength === bytes.byteLength) free(bytes)
}
