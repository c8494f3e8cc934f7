// Frees the memory of a Buffer that nobody needs any more. Left to the engine, memory outside its heap costs a collection of
// the whole heap for each 64 MiB of it, and as much of it lies about.

/**
 * Its bytes are gone for everyone who still has it. Not for what the system may yet read, as a write that has not ended.
 * Does nothing where the Buffer is a part of something larger.
 */
export function discard({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0)
}
