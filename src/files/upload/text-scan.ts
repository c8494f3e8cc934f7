// Says of bytes that come in pieces whether the whole is text: valid UTF-8 without controls other than tab, line feed,
// form feed and carriage return. A character may be cut by the end of a piece.

import { isUtf8 } from 'node:buffer'

export interface TextScan {
  /** Whether all pieces so far can be text; once false, it stays false. */
  readonly mayBeText: boolean
  take(piece: Buffer): void
  /** To be called after the last piece. A character that is cut at the end makes the file no text. */
  isText(): boolean
}

const isControl = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte === 0x7f || (byte < 0x20 && !'\t\n\f\r'.includes(String.fromCharCode(byte))) ? 1 : 0,
)

/** C1 controls in UTF-8. */
const laterControl = /\xc2[\x80-\x9f]/

/** For valid UTF-8. The whole scan, measured on 64 KiB: 1.6 to 2 GB/s; with a regular expression 1.1. */
function hasControl(bytes: Buffer): boolean {
  let found = 0
  for (let i = 0; i < bytes.length; i++) found |= isControl[bytes[i] ?? 0] ?? 0
  return found !== 0 || (bytes.includes(0xc2) && laterControl.test(bytes.toString('latin1')))
}

const nothing = Buffer.alloc(0)

export function scanText(): TextScan {
  let mayBeText = true
  /** First bytes of a character that ends in the next piece. */
  let cut = nothing
  const check = (whole: Buffer) => {
    if (!isUtf8(whole) || hasControl(whole)) mayBeText = false
  }
  return {
    get mayBeText() {
      return mayBeText
    },
    take(piece) {
      if (!mayBeText) return
      const missing = cut.length > 0 ? lengthOf(cut[0]) - cut.length : 0
      const head = Buffer.concat([cut, piece.subarray(0, missing)])
      if (missing > piece.length) return void (cut = head)
      if (head.length > 0) check(head)
      const end = Math.max(missing, piece.length - cutAtEnd(piece))
      check(piece.subarray(missing, end))
      // Copied: a piece is a part of a larger buffer, which these three bytes would keep in memory.
      cut = Buffer.from(piece.subarray(end))
    },
    isText: () => mayBeText && cut.length === 0,
  }
}

/** Bytes of the character that begins with this byte; 1 for a byte that begins none, which isUtf8 then refuses. */
function lengthOf(first = 0): number {
  if (first >= 0xf0) return 4
  if (first >= 0xe0) return 3
  return first >= 0xc0 ? 2 : 1
}

/** How many bytes at the end belong to a character that is not complete. */
function cutAtEnd(piece: Buffer): number {
  for (let back = 1; back <= Math.min(3, piece.length); back++) {
    const byte = piece[piece.length - back]
    const isContinuation = byte !== undefined && (byte & 0xc0) === 0x80
    if (!isContinuation) return lengthOf(byte) > back ? back : 0
  }
  return 0
}
