// What one turn says: text, or parts of text, images and files, and the calls of tools. Strict, since what is kept here goes
// to the backend again with every later turn. Fetches nothing: an image is a data URL, or an https address that the model
// may allow; a file is one that was uploaded. Refusals name the value by its path.

import { hostOf } from '../../chat/address.ts'
import { GatewayError } from '../../errors.ts'
import { invalid, isObject, missing, refuseUnknownKeys } from '../../http/refusals.ts'
import { field } from '../../http/json/field.ts'
import type { ImagePart, NamedFile, SentPart, TextPart, ToolCall } from '../message.ts'

/** The largest image that is kept within its message; counts only when there is no store. */
const imageBytes = 1024 * 1024
/** The most tool calls in one message, also in a generated one (streams/assembly.ts). */
export const maxToolCalls = 128

export interface Spot {
  /** The path of the value, such as `messages[0].content`. */
  readonly at: string
  /** How many images and files there may be. */
  readonly attachments: number
  /** True when there is a store: the client may name files, and images of any size go to the store. */
  readonly takesFiles: boolean
}

/** Reads text or a list of parts. Neither may be empty. */
export function readParts(value: unknown, spot: Spot): string | readonly SentPart[] {
  const { at, attachments, takesFiles } = spot
  if (value === undefined || value === null) throw missing(at)
  if (typeof value === 'string') {
    if (value === '') throw invalid(at, 'must not be empty')
    return value
  }
  if (!Array.isArray(value)) throw invalid(at, 'must be a string or a list of parts')
  if (value.length === 0) throw invalid(at, 'must not be empty')
  const parts = value.map((part: unknown, i) => readPart(part, { at: `${at}[${i}]`, takesFiles }))
  const attached = parts.filter(({ type }) => type !== 'text').length
  if (attached > attachments) throw invalid(at, `has more than ${attachments} attachments`)
  return parts
}

/** The same for `assistant` and `tool`, which send text only. The text may be empty: a tool may have no output. */
export function readTextParts(value: unknown, at: string): string | readonly TextPart[] {
  if (value === undefined || value === null) throw missing(at)
  if (typeof value === 'string') return value
  if (!Array.isArray(value)) throw invalid(at, 'must be a string or a list of text parts')
  if (value.length === 0) throw invalid(at, 'must not be empty')
  return value.map((part: unknown, i) => {
    const path = `${at}[${i}]`
    if (field(part, 'type') !== 'text') throw invalid(`${path}.type`, 'must be "text" here')
    return readTextPart(part, path)
  })
}

export function readToolCalls(value: unknown, at: string): readonly ToolCall[] {
  if (!Array.isArray(value) || value.length === 0) throw invalid(at, 'must be a list of tool calls')
  if (value.length > maxToolCalls) throw invalid(at, `has more than ${maxToolCalls} calls`)
  const calls = value.map((call: unknown, i) => readToolCall(call, `${at}[${i}]`))
  const ids = new Set(calls.map(({ id }) => id))
  if (ids.size < calls.length) throw invalid(at, 'has two calls of one id')
  return calls
}

/** A string of 1 to 256 characters. */
export function readName(value: unknown, at: string): string {
  if (value === undefined || value === null) throw missing(at)
  if (typeof value !== 'string' || value === '' || value.length > 256) {
    throw invalid(at, 'must be a string of 1 to 256 characters')
  }
  return value
}

type PartSpot = Omit<Spot, 'attachments'>

function readPart(part: unknown, spot: PartSpot): SentPart {
  const { at, takesFiles } = spot
  if (!isObject(part)) throw invalid(at, 'must be an object')
  const type = field(part, 'type')
  if (type === undefined) throw missing(`${at}.type`)
  if (type === 'text') return readTextPart(part, at)
  if (type === 'image_url') return readImagePart(part, spot)
  if (type === 'file' && takesFiles) return readFilePart(part, at)
  const hint = typeof type === 'string' ? otherWays.get(type) : undefined
  if (hint) throw new GatewayError('unsupported_attachment', { param: at, message: hint })
  throw invalid(`${at}.type`, 'must be "text", "image_url" or "file"')
}

const otherWays: ReadonlyMap<string, string> = new Map([
  ['file', 'Files are switched off here. Send images as data URLs, and other files as text.'],
  ['input_audio', 'A message cannot contain sound. Upload it as a file and send its file_id.'],
])

const textKeys = new Set(['type', 'text'])

function readTextPart(part: unknown, at: string): TextPart {
  if (!isObject(part)) throw invalid(at, 'must be an object')
  const text = field(part, 'text')
  if (text === undefined) throw missing(`${at}.text`)
  if (typeof text !== 'string') throw invalid(`${at}.text`, 'must be a string')
  if (text === '') throw invalid(`${at}.text`, 'must not be empty. Leave the part out')
  refuseUnknownKeys(part, { known: textKeys, at })
  return { type: 'text', text }
}

const fileKeys = new Set(['type', 'file'])
/** The API shows a file with its name, so that a client can send the part back as it is. */
const namedKeys = new Set(['file_id', 'filename'])

function readFilePart(part: object, at: string): NamedFile {
  refuseUnknownKeys(part, { known: fileKeys, at })
  const file = field(part, 'file')
  const path = `${at}.file`
  if (file === undefined) throw missing(path)
  if (!isObject(file)) throw invalid(path, 'must be an object with the field "file_id"')
  if (Object.hasOwn(file, 'file_data')) {
    throw invalid(
      `${path}.file_data`,
      'is not allowed here. Upload the file and send its "file_id"',
    )
  }
  refuseUnknownKeys(file, { known: namedKeys, at: path })
  const file_id = readName(field(file, 'file_id'), `${path}.file_id`)
  return { type: 'file', file: { file_id }, at: `${path}.file_id` }
}

const partKeys = new Set(['type', 'image_url'])
const imageKeys = new Set(['url', 'detail'])

function readImagePart(part: object, { at, takesFiles }: PartSpot): ImagePart {
  refuseUnknownKeys(part, { known: partKeys, at })
  const image = field(part, 'image_url')
  const path = `${at}.image_url`
  if (image === undefined) throw missing(path)
  if (!isObject(image)) throw invalid(path, 'must be an object with the field "url"')
  refuseUnknownKeys(image, { known: imageKeys, at: path })
  const url = readImageUrl(field(image, 'url'), { at: `${path}.url`, takesFiles })
  const detail = field(image, 'detail') ?? undefined
  if (detail === undefined) return { type: 'image_url', image_url: { url } }
  if (typeof detail !== 'string' || !/^[a-z]{1,16}$/.test(detail)) {
    throw invalid(`${path}.detail`, 'must be "auto", "low" or "high"')
  }
  return { type: 'image_url', image_url: { url, detail } }
}

const dataUrl = /^data:image\/(?:png|jpe?g|gif|webp);base64,/i

function readImageUrl(url: unknown, { at, takesFiles }: PartSpot): string {
  if (url === undefined) throw missing(at)
  // Whether a backend may fetch the address depends on the model: `checkSend` decides (parse-send.ts).
  if (typeof url === 'string' && hostOf(url) !== undefined) return url
  const head = typeof url === 'string' ? dataUrl.exec(url)?.[0] : undefined
  if (typeof url !== 'string' || head === undefined) {
    const what =
      'must be a data URL of a png, jpeg, gif or webp image (data:image/png;base64,…), or an https address of a host that the model takes images from'
    throw invalid(at, what)
  }
  const padding = /={0,2}$/.exec(url.slice(-2))?.[0].length ?? 0
  const digits = url.length - head.length
  if (!takesFiles && (digits / 4) * 3 - padding > imageBytes) {
    const message = 'An image in a message must not be larger than 1 MiB. Make it smaller.'
    throw new GatewayError('body_too_large', { param: at, message })
  }
  if (!isBase64(url.slice(head.length), padding)) throw invalid(at, 'is not valid base64')
  if (takesFiles && !imageTypeIn(url)) {
    throw invalid(at, 'does not hold a png, jpeg, gif or webp image')
  }
  return url
}

/**
 * Decodes the text to check it: a pattern takes ten times as long, 40 ms for 20 MiB. A wrong character gives fewer
 * bytes, since the decoder skips it or stops there. But the decoder accepts `-` and `_` of base64url, and the low byte
 * of wide letters, so both are refused first.
 */
function isBase64(text: string, padding: number): boolean {
  if (text.length === 0 || text.length % 4 !== 0) return false
  if (Buffer.byteLength(text) > text.length || text.includes('-') || text.includes('_'))
    return false
  return Buffer.from(text, 'base64').length === (text.length / 4) * 3 - padding
}

/**
 * Tells the type of the image in a data URL by its first bytes, for the four types that models take and that are served
 * inline. The type that the URL claims does not count: a browser would open other content as that type.
 */
export function imageTypeIn(url: string): string | undefined {
  const start = url.indexOf(',') + 1
  const head = Buffer.from(url.slice(start, start + 24), 'base64').toString('latin1', 0, 12)
  if (head.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png'
  if (head.startsWith('\xff\xd8\xff')) return 'image/jpeg'
  if (/^GIF8[79]a/.test(head)) return 'image/gif'
  return head.startsWith('RIFF') && head.endsWith('WEBP') ? 'image/webp' : undefined
}

const callKeys = new Set(['id', 'type', 'function', 'index'])
const functionKeys = new Set(['name', 'arguments'])

function readToolCall(call: unknown, at: string): ToolCall {
  if (!isObject(call)) throw invalid(at, 'must be an object')
  if (field(call, 'type') !== 'function') throw invalid(`${at}.type`, 'must be "function"')
  refuseUnknownKeys(call, { known: callKeys, at })
  const id = readName(field(call, 'id'), `${at}.id`)
  const called = field(call, 'function')
  const path = `${at}.function`
  if (called === undefined) throw missing(path)
  if (!isObject(called)) throw invalid(path, 'must be an object')
  refuseUnknownKeys(called, { known: functionKeys, at: path })
  const name = readName(field(called, 'name'), `${path}.name`)
  const args = field(called, 'arguments')
  if (args === undefined) throw missing(`${path}.arguments`)
  if (typeof args !== 'string') throw invalid(`${path}.arguments`, 'must be a string of JSON')
  return { id, type: 'function', function: { name, arguments: args } }
}
