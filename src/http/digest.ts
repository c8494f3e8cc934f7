// SHA-256 of megabytes, in turns with other work: 20 MiB at once would block the event loop for 26 ms.

import { createHash, hash } from 'node:crypto'
import type { BinaryToTextEncoding } from 'node:crypto'
import { inTurns } from '../sharing/fair-turns.ts'

const pieceBytes = 256 * 1024

/** `ref` names the account whose turns this takes. */
export async function sha256InTurns(
  bytes: Buffer,
  { ref, encoding }: { readonly ref: string; readonly encoding: BinaryToTextEncoding },
): Promise<string> {
  if (bytes.length <= pieceBytes) return hash('sha256', bytes, encoding)
  const digest = createHash('sha256')
  let from = 0
  return await inTurns(ref, () => {
    digest.update(bytes.subarray(from, from + pieceBytes))
    from += pieceBytes
    return from < bytes.length ? undefined : digest.digest(encoding)
  })
}
