// What a file is to a model: its kind by its type, its cost and its room in a request, and the part of a message that
// the file becomes there. A reference has all that later turns need, so they need not read the file's row. Does no I/O.

import type { PromptPrices } from '../tokens/estimate.ts'
import { audioBytesPerToken, imagePrice } from '../tokens/media.ts'

export const fileKinds = ['image', 'text', 'audio', 'file'] as const

export type FileKind = (typeof fileKinds)[number]

/** A file as a message keeps it: fields as they are stored. */
export interface FileReference {
  readonly file_id: string
  readonly kind: FileKind
  readonly bytes: number
  readonly content_type: string
  readonly filename: string
  /** Only of an image: the resolution that the client asked for. */
  readonly detail?: string
}

/** A part of a message as a backend takes it. */
export type BackendPart = Readonly<Record<string, unknown>> & { readonly type: string }

const images: ReadonlySet<string> = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp'])
const audioFormats: ReadonlyMap<string, string> = new Map([
  ['audio/mpeg', 'mp3'],
  ['audio/wav', 'wav'],
  ['audio/x-wav', 'wav'],
])

export function kindOf(contentType: string): FileKind {
  const type = typeOf(contentType)
  if (images.has(type)) return 'image'
  if (type === 'text/plain') return 'text'
  return audioFormats.has(type) ? 'audio' : 'file'
}

/** Without its parameters. */
function typeOf(contentType: string): string {
  return contentType.split(';', 1)[0]?.trim().toLowerCase() ?? ''
}

/** The most bytes that a file takes in a request: as base64, or as text with each character escaped. */
export function inlineBytes({ kind, bytes }: Pick<FileReference, 'kind' | 'bytes'>): number {
  return kind === 'text' ? 2 * bytes : Math.ceil(bytes / 3) * 4
}

/** Most bytes of a document are pictures and fonts, so it has more bytes a token than text. */
const documentBytesPerToken = 10

/** Bytes of JSON around a content that are not there around its stand-in. */
const aroundBytes = 80

/**
 * How many tokens more tokens/estimate.ts would estimate for the file in the request than for its stand-in. Documents
 * have an estimate of their own.
 */
export function tokensOf(file: FileReference, prices: PromptPrices): number {
  return Math.ceil(aroundBytes / prices.bytesPerToken) + contentTokens(file, prices)
}

/** An image is not opened for its size before the request is made. Photographs have at most this many pixels a byte. */
const pixelsPerByte = 4

function contentTokens(file: FileReference, { bytesPerToken, imageTokens }: PromptPrices): number {
  switch (file.kind) {
    case 'image':
      return imagePrice(file.bytes * pixelsPerByte, imageTokens)
    case 'text':
      return Math.ceil(file.bytes / bytesPerToken)
    case 'audio':
      return Math.ceil(inlineBytes(file) / audioBytesPerToken)
    case 'file':
      return documentTokens(file, bytesPerToken)
  }
}

/** Documents in a text format, such as JSON or CSV, cost as much as text. */
function documentTokens({ bytes, content_type }: FileReference, bytesPerToken: number): number {
  const isText = /^text\/|json|xml|yaml|csv|javascript/.test(typeOf(content_type))
  return Math.ceil(bytes / (isText ? bytesPerToken : documentBytesPerToken))
}

/** By how many tokens tokens/count-prompt.ts overcounts a document, because it sees only base64. */
export function overcounted(file: FileReference, prices: PromptPrices): number {
  if (file.kind !== 'file') return 0
  const counted = Math.ceil(inlineBytes(file) / prices.bytesPerToken)
  return Math.max(0, counted - tokensOf(file, prices))
}

/** Words in place of a file that the model can't get. */
export function standIn({ kind, filename }: Pick<FileReference, 'kind' | 'filename'>): {
  readonly type: 'text'
  readonly text: string
} {
  return { type: 'text', text: kind === 'image' ? '[image]' : label(filename) }
}

const label = (filename: string) => `[file: ${filename}]`

export function partOf(file: FileReference, content: Buffer): BackendPart {
  const { kind, filename, detail } = file
  const type = typeOf(file.content_type)
  switch (kind) {
    case 'image': {
      const url = dataUrl(type, content)
      return { type: 'image_url', image_url: { url, ...(detail !== undefined && { detail }) } }
    }
    case 'text':
      return { type: 'text', text: `${label(filename)}\n${textOf(content)}` }
    case 'audio': {
      const format = audioFormats.get(type)
      return { type: 'input_audio', input_audio: { data: content.toString('base64'), format } }
    }
    case 'file':
      return { type: 'file', file: { filename, file_data: dataUrl(type, content) } }
  }
}

/** Where `partOf` puts base64. */
const base64Fields = new Set(['url', 'data', 'file_data'])

/** A part from `partOf` as JSON. JSON.stringify would take 48 ms to search 20 MiB of base64 for characters to escape. */
export function partText(part: BackendPart): string {
  let field = ''
  let base64 = ''
  const aside = (key: string, value: unknown) => {
    if (!base64Fields.has(key) || typeof value !== 'string') return value
    field = key
    base64 = value
    return ''
  }
  const text = JSON.stringify(part, aside)
  // No other place can match: within a text, the quotes would be escaped.
  return field === '' ? text : text.replace(`"${field}":""`, () => `"${field}":"${base64}"`)
}

function dataUrl(type: string, content: Buffer): string {
  return `data:${type};base64,${content.toString('base64')}`
}

/** Decodes UTF-8, without the byte order mark. */
function textOf(content: Buffer): string {
  return new TextDecoder().decode(content)
}
