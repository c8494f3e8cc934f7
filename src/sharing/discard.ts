// Frees the memory of a Buffer that nobody needs any more. Left to the engine, memory outside its heap costs a collection of
// the whole heap for each 64 MiB of it, and as much of it lies about.

import { plain } from '../plain.ts'

/** Its bytes, and all that lies in the same memory, are gone for everyone. Not for what the system may yet read, as a write that has not ended. */
export function free({ buffer, byteLength }: Uint8Array): void {
  if (plain.has('freed-buffers')) return
  if (byteLength > 0 && buffer instanceof ArrayBuffer) buffer.transfer(0)
}

/** The same, but does nothing where the Buffer is a part of something larger. */
export function discard(bytes: Uint8Array): void {
  if (bytes.buffer.byteLength === bytes.byteLength) free(bytes)
}
