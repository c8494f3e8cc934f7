// Finds images, sound and documents in a body: where they lie, and what they cost in place of their text. In messages
// they are found only where Chat Completions has them, `messages[].content[]`; in inputs, queries and documents in any
// object, because servers differ. Anywhere else such a value counts as text.

import { JsonTokens, decoded } from '../http/json/tokens.ts'
import type { Span } from '../http/json/tokens.ts'
import { imagePixels, newBudget } from './image-size.ts'
import type { Budget, Place } from './image-size.ts'

/** The bytes of the body that count as media and not as text; an empty span when they count as both. */
export interface Media extends Span {
  readonly tokens: number
  /** The most tokens that any model needs for it. */
  readonly most: number
}

/** Bytes of base64. Models take 10 tokens or more a second, and a second may be written in 750 bytes. A header could lie about the length, so bytes are counted. */
export const audioBytesPerToken = 100

/** `image_tokens` are for an image of this many pixels or fewer; larger ones cost in proportion. */
const imagePixelsPerPrice = 1024 * 1024
/** No image costs more than this many times `image_tokens`. */
const mostImage = 64
/**
 * No image has more pixels for each character of base64. An image that cannot be measured counts as if it had this
 * many.
 */
const pixelsPerChar = 32_768
/**
 * An image behind an address costs this many times `image_tokens`, enough for 12 megapixels: nobody can measure it
 * before the backend fetches it.
 */
const addressedImage = 16

/** For what an https address leads to, be it an image, sound or a film. */
export function addressedPrice(imageTokens: number): {
  readonly tokens: number
  readonly most: number
} {
  return { tokens: addressedImage * imageTokens, most: mostImage * imageTokens }
}

/** This many JSON tokens are looked at; images after them count as text, which costs more. */
const lookedAt = 100_000
/** This much of a long data URL is read: enough for what stands before the size of the image. */
const headBytes = 128 * 1024
/** Some clients escape each slash. To undo that in more bytes would block the event loop. */
const mostEscapedBytes = 8 * 1024 * 1024

export function imagePrice(pixels: number, imageTokens: number): number {
  const size = pixels / imagePixelsPerPrice
  return Math.ceil(imageTokens * Math.min(mostImage, Math.max(1, size)))
}

/** For an image in a data URL. */
export function dataUrlPrice(url: string, imageTokens: number): number {
  const text = Buffer.from(url.slice(0, headBytes), 'latin1')
  const pixels = pixelsOf(text, { from: 0, to: text.length, budget: newBudget() })
  return imagePrice(pixels ?? url.length * pixelsPerChar, imageTokens)
}

export interface MediaOptions {
  readonly from: number
  readonly to: number
  /** Whether it is `messages`; else any object may be a part. */
  readonly isMessages: boolean
  /** The model's `image_tokens`. */
  readonly imageTokens: number
  /** Documents and films cost by their bytes, as text does before it is counted. */
  readonly bytesPerToken: number
}

/** The media in one member of the body, in their order. */
export function findMedia(body: Buffer, options: MediaOptions): readonly Media[] {
  const found: Media[] = []
  const tokens = new JsonTokens(body, options)
  const looking = { ...options, body, escapedBytes: 0, budget: newBudget() }
  /** Keys that are open, by depth: [ { content: [ { image_url: { url: … } } ] } ]. */
  const keys: string[] = []
  const parts: MediaPart[] = []
  const partAt = (depth: number) => {
    const isPart = !options.isMessages || (depth === 4 && keys[2] === 'content')
    return isPart ? (parts[depth] ??= new MediaPart(looking)) : undefined
  }
  while (tokens.count < lookedAt) {
    const kind = tokens.next()
    if (kind === 'end') break
    const { depth, start, end } = tokens
    if (kind === 'key') keys[depth] = nameIn(body, start, end)
    else if (kind === 'open') keys[depth] = ''
    else if (kind === 'close') found.push(...(parts[depth + 1]?.close() ?? []))
    else if (kind === 'string') {
      partAt(depth)?.add(keys[depth] ?? '', start, end)
      partAt(depth - 1)?.add(`${keys[depth - 1]}.${keys[depth]}`, start, end)
    }
  }
  return found.toSorted((a, b) => a.start - b.start)
}

interface Looking extends MediaOptions {
  readonly body: Buffer
  /** How many bytes with escapes were read so far. */
  escapedBytes: number
  readonly budget: Budget
}

/** A content part while it is read. If a key stands twice, both values count, because parsers differ in which one they take. */
class MediaPart {
  readonly #looking: Looking
  #types = new Set<string>()
  #images: Media[] = []
  #sounds: Media[] = []
  #documents: Media[] = []

  constructor(looking: Looking) {
    this.#looking = looking
  }

  add(name: string, start: number, end: number): void {
    const { body, bytesPerToken, isMessages } = this.#looking
    if (name === 'type') this.#types.add(nameIn(body, start, end))
    else if (images.has(name) || (!isMessages && otherImages.has(name))) {
      if (this.#isDataUrl(start, end)) this.#images.push(this.#image(start, end))
    } else if (name === 'input_audio.data') {
      const tokens = Math.ceil((end - start) / audioBytesPerToken)
      this.#sounds.push({ start, end, tokens, most: end - start })
    } else if (documents.has(name) && this.#isDataUrl(start, end)) {
      const tokens = Math.ceil((end - start) / bytesPerToken)
      this.#documents.push({ start, end, tokens, most: end - start })
    }
  }

  close(): readonly Media[] {
    const media = [
      ...this.#imagesOfType(),
      ...(this.#types.has('input_audio') ? this.#sounds : []),
      ...this.#documents,
    ]
    this.#types = new Set()
    this.#images = []
    this.#sounds = []
    this.#documents = []
    return media
  }

  /** Some servers recognise an image by its key, without a type. Such an image in a message counts both as text and as an image. */
  #imagesOfType(): readonly Media[] {
    if (this.#types.has('image_url')) return this.#images
    if (this.#types.has('text')) return []
    if (!this.#looking.isMessages) return this.#images
    return this.#images.map((image) => ({ ...image, end: image.start }))
  }

  #image(start: number, end: number): Media {
    const price = this.#looking.imageTokens
    const most = mostImage * price
    const pixels = this.#pixels(start, end) ?? (end - start) * pixelsPerChar
    // A data URL that is not base64 counts both as text and as an image, because a server may read it as text.
    const isBase64 = /^[^,]*;base64,/i.test(this.#headOf(start, end))
    return { start, end: isBase64 ? end : start, tokens: imagePrice(pixels, price), most }
  }

  #pixels(start: number, end: number): number | undefined {
    const { body, budget } = this.#looking
    const head = body.subarray(start, Math.min(end, start + headBytes))
    if (!head.includes(backslash)) return pixelsOf(body, { from: start, to: end, budget })
    this.#looking.escapedBytes += head.length
    if (this.#looking.escapedBytes > mostEscapedBytes) return undefined
    const text = withoutBackslashes(head)
    return pixelsOf(text, { from: 0, to: text.length, budget })
  }

  #isDataUrl(start: number, end: number): boolean {
    return /^data:/i.test(this.#headOf(start, end))
  }

  /** The beginning of a data URL, with all that stands before its comma. */
  #headOf(start: number, end: number): string {
    return decoded(this.#looking.body, start, Math.min(end, start + 256))
  }
}

const images: ReadonlySet<string> = new Set(['image_url', 'image_url.url'])
const otherImages: ReadonlySet<string> = new Set(['image', 'image.url'])
const documents: ReadonlySet<string> = new Set(['file.file_data', 'video_url', 'video_url.url'])

function pixelsOf(text: Buffer, { from, to, budget }: Place): number | undefined {
  const comma = text.indexOf(',', from)
  if (comma < 0 || comma >= Math.min(to, from + 256)) return undefined
  const isBase64 = /;base64$/i.test(text.toString('latin1', from, comma))
  return isBase64 ? imagePixels(text, { from: comma + 1, to, budget }) : undefined
}

const backslash = 0x5c
const slash = 0x2f

/**
 * Removes backslashes before slashes. Any other backslash stays, and shows that the base64 cannot be read. A loop,
 * because a search and replacement takes fifteen times as long where half of the bytes are backslashes.
 */
function withoutBackslashes(text: Buffer): Buffer {
  const plain = Buffer.allocUnsafe(text.length)
  let length = 0
  for (let i = 0; i < text.length; i++) {
    const c = text[i] ?? 0
    if (c !== backslash || text[i + 1] !== slash) plain[length++] = c
  }
  return plain.subarray(0, length)
}

/** A key or a word without its escapes; '' for a long one, which is not one of the known names. */
function nameIn(body: Buffer, start: number, end: number): string {
  // Each character may be written as an escape of six bytes.
  return end - start <= longestName * 6 ? decoded(body, start, end) : ''
}

const longestName = 16
