// The files and images of messages, on their two ways. In: in the turns that are stored, a file's id becomes a reference
// with the data of the file's row, and an image within the message becomes a file that is still to be stored. Out: a
// message for a backend is a draft while its files are still to be read, then JSON text. Does no I/O.

import { hostOf } from '../../chat/address.ts'
import type { Model } from '../../config/config.ts'
import { GatewayError } from '../../errors.ts'
import { kindOf, partText } from '../../files/file-reference.ts'
import type { BackendPart, FileReference } from '../../files/file-reference.ts'
import type { NewImage } from '../../files/message-files.ts'
import type { FileRow } from '../../files/file-row.ts'
import { newId } from '../../ids.ts'
import { imageTypeIn } from './content.ts'
import { mapParts, partsOf } from '../message.ts'
import type { FilePart, ImagePart, MessageContent, NamedFile } from '../message.ts'
import type { NewMessage, Part, SentPart } from '../message.ts'

export interface Attaching {
  readonly model: Pick<Model, 'accepts'>
  /** Rows of all files that the turns name, by id; undefined when there is no store. */
  readonly files: ReadonlyMap<string, FileRow> | undefined
}

export interface Attached {
  readonly turns: readonly NewMessage[]
  readonly images: readonly NewImage[]
}

/** File id → path in the body where the id stands first. */
export function namedIn(turns: readonly NewMessage<SentPart>[]): ReadonlyMap<string, string> {
  const named = new Map<string, string>()
  for (const { content } of turns) {
    for (const part of partsOf(content)) {
      if (part.type === 'file' && !named.has(part.file.file_id)) {
        named.set(part.file.file_id, part.at)
      }
    }
  }
  return named
}

/** Throws `unsupported_attachment`, `file_not_found`. */
export function attach(
  turns: readonly NewMessage<SentPart>[],
  { model, files }: Attaching,
): Attached {
  const images: NewImage[] = []
  const attachPart = (part: SentPart) => {
    if (part.type === 'file') return reference(part, { model, files })
    if (part.type === 'text' || !files || hostOf(part.image_url.url) !== undefined) return part
    const image = newImage(part, images.length + 1)
    images.push(image)
    return imagePart(part, image)
  }
  const kept = turns.map((turn) => ({ ...turn, content: mapParts(turn.content, attachPart) }))
  return { turns: kept, images }
}

function reference({ file: { file_id }, at }: NamedFile, { model, files }: Attaching): FilePart {
  const row = files?.get(file_id)
  if (!row) throw new GatewayError('file_not_found', { param: at })
  const { bytes, contentType: content_type, filename } = row
  const kind = kindOf(content_type)
  if (!model.accepts.includes(kind)) {
    const what = kind === 'file' ? `of type ${content_type}` : `of kind ${kind}`
    const message = `The file ${file_id} is ${what}, and the model takes only ${model.accepts.join(', ')}. Choose one that takes it.`
    throw new GatewayError('unsupported_attachment', { param: at, message })
  }
  return { type: 'file', file: { file_id, kind, bytes, content_type, filename } }
}

const extensions: Readonly<Record<string, string>> = {
  'image/png': 'png',
  'image/jpeg': 'jpg',
  'image/gif': 'gif',
  'image/webp': 'webp',
}

function newImage({ image_url: { url } }: ImagePart, number: number): NewImage {
  const contentType = imageTypeIn(url)
  if (contentType === undefined) throw new TypeError('an image that was not looked at')
  const filename = `image-${number}.${extensions[contentType] ?? ''}`
  const base64 = url.slice(url.indexOf(',') + 1)
  return { id: newId('file'), filename, contentType, base64 }
}

function imagePart({ image_url: { detail } }: ImagePart, image: NewImage): FilePart {
  const { id: file_id, base64, contentType: content_type, filename } = image
  const bytes = Buffer.byteLength(base64, 'base64')
  const file = { file_id, kind: 'image', bytes, content_type, filename } as const
  return { type: 'file', file: { ...file, ...(detail !== undefined && { detail }) } }
}

/** A message as JSON text; a message with files becomes text when its files have been read. */
export type Draft = string | Unfilled

interface Unfilled {
  readonly message: object
  readonly content: readonly Part[]
}

export function fill(draft: Draft, part: (file: FileReference) => BackendPart): string {
  if (typeof draft === 'string') return draft
  // Concatenated, not joined: so V8 copies the megabytes once, when the body is made.
  const content = draft.content
    .map((one) => (one.type === 'file' ? partText(part(one.file)) : JSON.stringify(one)))
    .reduce((all, text) => `${all},${text}`)
  // No other place can match: within a text, the quotes would be escaped.
  const message = JSON.stringify({ ...draft.message, content: 0 })
  return message.replace('"content":0', () => `"content":[${content}]`)
}

export function filesIn(draft: Draft): readonly FileReference[] {
  return typeof draft === 'string' ? [] : filesOf(draft.content)
}

export function filesOf(content: MessageContent): readonly FileReference[] {
  return partsOf(content).flatMap((part) => (part.type === 'file' ? [part.file] : []))
}
