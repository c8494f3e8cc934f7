// How many pixels an image in a data URL has, from its first bytes: PNG, JPEG, GIF and WebP, recognised by their bytes
// and not by their declared type. Decodes only the bytes it looks at. Returns undefined for any other image.

/**
 * At most this many segments are passed before the size of a JPEG, chunks before the pixels of a PNG, or blocks before
 * the first frame of a GIF.
 */
const maxSegments = 64

/** How many characters may still be read, of all images of a body: to read more would block the event loop. */
export interface Budget {
  chars: number
}

/** Reading this much takes 6 ms. Cameras write up to 100 KB before the size of an image. */
const mostChars = 2 * 1024 * 1024
/** Each read counts as this many characters more, because that is what it takes: images may be small, and many. */
const charsPerRead = 256

export const newBudget = (): Budget => ({ chars: mostChars })

/** Where an image lies in a text. */
export interface Place {
  readonly from: number
  readonly to: number
  readonly budget: Budget
}

/** Reads an image in base64 that lies in a text. */
export function imagePixels(text: Buffer, { from, to, budget }: Place): number | undefined {
  let checked = from
  const at: Bytes = (offset, length) => {
    const start = from + Math.floor(offset / 3) * 4
    const end = Math.min(to, start + Math.ceil((length + 3) / 3) * 4)
    // A decoder may skip any other character. That shifts all bytes after it, so none of those is believed.
    const spare = Math.max(0, budget.chars - charsPerRead)
    const until = Math.min(end, checked + spare)
    budget.chars = spare - Math.max(0, until - checked)
    while (checked < until && isBase64(text[checked], to - checked)) checked++
    if (checked < end || spare === 0) return nothing
    const bytes = Buffer.from(text.toString('latin1', start, end), 'base64')
    return bytes.subarray(offset % 3, (offset % 3) + length)
  }
  const head = at(0, 30)
  const word = head.toString('latin1')
  if (word.startsWith('\x89PNG\r\n\x1a\n')) return pngPixels(at)
  if (word.startsWith('\xff\xd8')) return jpegPixels(at)
  if (word.startsWith('GIF8')) return gifPixels(at, head)
  if (word.startsWith('RIFF') && word.slice(8, 12) === 'WEBP') return webpPixels(head)
  return undefined
}

const nothing = Buffer.alloc(0)
const digits = new Uint8Array(256)
for (const char of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_') {
  digits[char.charCodeAt(0)] = 1
}

/** `left`: how many characters there are, with this one. The last two may be padding. */
const isBase64 = (char = 0, left: number): boolean =>
  digits[char] === 1 || (char === 0x3d && left <= 2)

/** Bytes of the image; fewer at its end. */
type Bytes = (offset: number, length: number) => Buffer

/** The largest size of all chunks before the pixels: some decoders let other chunks come first, and take the last size. */
function pngPixels(at: Bytes): number | undefined {
  let pixels: number | undefined
  let offset = 8
  for (let i = 0; i < maxSegments; i++) {
    const head = at(offset, 16)
    const type = head.toString('latin1', 4, 8)
    if (type === 'IDAT' || (head.length >= 8 && !/^\w{4}$/.test(type))) return pixels
    if (head.length < 16) return undefined
    if (type === 'IHDR')
      pixels = Math.max(pixels ?? 0, head.readUInt32BE(8) * head.readUInt32BE(12))
    offset += 12 + head.readUInt32BE(0)
  }
  return undefined
}

function jpegPixels(at: Bytes): number | undefined {
  let offset = 2
  for (let i = 0; i < maxSegments; i++) {
    const head = at(offset, 9)
    if (head.length < 9 || head[0] !== 0xff) return undefined
    const marker = head[1] ?? 0
    if (marker === 0xff) offset += 1
    else if (isFrame(marker)) return head.readUInt16BE(5) * head.readUInt16BE(7)
    else offset += 2 + head.readUInt16BE(2)
  }
  return undefined
}

/** SOF0 to SOF15, except the three codes among them that begin no frame: DHT, JPG and DAC. */
function isFrame(marker: number): boolean {
  const others = marker === 0xc4 || marker === 0xc8 || marker === 0xcc
  return marker >= 0xc0 && marker <= 0xcf && !others
}

/** The larger of its screen and its first frame: some decoders take the one, some the other. */
function gifPixels(at: Bytes, head: Buffer): number | undefined {
  if (head.length < 13) return undefined
  const flags = head[10] ?? 0
  let offset = 13 + (flags & 0x80 ? 3 * 2 ** ((flags & 7) + 1) : 0)
  for (let i = 0; i < maxSegments; i++) {
    const block = at(offset, 9)
    if (block[0] === 0x2c && block.length === 9) {
      const wide = Math.max(head.readUInt16LE(6), block.readUInt16LE(1) + block.readUInt16LE(5))
      const high = Math.max(head.readUInt16LE(8), block.readUInt16LE(3) + block.readUInt16LE(7))
      return wide * high
    }
    if (block[0] !== 0x21) return undefined
    offset += 2
    for (let length = at(offset, 1)[0]; length; length = at(offset, 1)[0]) {
      if (++i > maxSegments) return undefined
      offset += 1 + length
    }
    offset += 1
  }
  return undefined
}

function webpPixels(head: Buffer): number | undefined {
  if (head.length < 30) return undefined
  const kind = head.toString('latin1', 12, 16)
  if (kind === 'VP8X') return (1 + head.readUIntLE(24, 3)) * (1 + head.readUIntLE(27, 3))
  if (kind === 'VP8 ') return (head.readUInt16LE(26) & 0x3fff) * (head.readUInt16LE(28) & 0x3fff)
  if (kind !== 'VP8L') return undefined
  const bits = head.readUInt32LE(21)
  return (1 + (bits & 0x3fff)) * (1 + ((bits >>> 14) & 0x3fff))
}
