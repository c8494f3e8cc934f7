// Checks the media of a prompt, in messages, inputs and documents. They must be data URLs, or https from a host that
// the model's `remote_media` lists; a backend that fetches anything else would be a port scanner inside the operator's
// network. Fetches nothing, and looks at no image.

import { GatewayError } from '../errors.ts'
import type { JsonScan, Member } from '../http/json/scan.ts'
import { invalid, isObject, unknown } from '../http/refusals.ts'
import { refuseTwice } from '../http/json/twice.ts'
import { field } from '../http/json/field.ts'
import { hostOf, isBase64, isDataUrl } from './address.ts'

/** A name that passes only when a model's `extra_parameters` lists it. */
export interface Unlisted {
  /** The name as the operator would have to list it. */
  readonly name: string
  /** Where it stands in the body. */
  readonly param: string
  /** What the table of parameters says; undefined for a name that is not in the table. */
  readonly why?: string
}

export interface RemoteAddress {
  /** With its port where it is not 443. */
  readonly host: string
  readonly param: string
}

/** Each costs microseconds, and a body may name a hundred thousand. */
const mostAddresses = 1024
const mostUnlisted = 4096
/** No known name is longer. */
const longestName = 64

interface MediaFound {
  readonly unlisted: Unlisted[]
  readonly addresses: RemoteAddress[]
}

interface MediaReading extends MediaFound {
  readonly scan: JsonScan
  readonly member: Member
}

/** Reads the media of one top-level member. Throws `invalid_parameter`, and `invalid_json` when a key stands twice. */
export function readMedia(name: string, { scan, member, ...found }: MediaReading): void {
  const value = scan.value(name)
  refuseTwice(name, value, member)
  if (name === 'messages') readMessages(value, found)
  else readLoose(value, { at: name, found })
}

interface MediaSpot {
  readonly at: string
  readonly found: MediaFound
}

/** Keys of a message that hold media; whatever else stands in a message is text to a backend. */
const messageMedia = new Set(['images', 'image', 'videos', 'video', 'audios', 'image_url'])

function readMessages(messages: unknown, found: MediaFound): void {
  if (!Array.isArray(messages)) throw invalid('messages', 'must be a list')
  for (let i = 0; i < messages.length; i++) {
    const message: unknown = messages[i]
    if (!isObject(message)) continue
    for (const key in message) {
      if (key === 'role') continue
      const value = (message as Readonly<Record<string, unknown>>)[key]
      if (key === 'content' && typeof value === 'string') continue
      const at = `messages[${i}].${key}`
      if (key === 'content') readContent(value, { at, found })
      else if (messageMedia.has(key)) readAll(value, { at, found })
      else refuseLookalike(key, { at, known: isOfMessage })
    }
  }
}

const isOfMessage = (key: string): boolean =>
  key === 'role' || key === 'content' || messageMedia.has(key)

function readContent(content: unknown, { at, found }: MediaSpot): void {
  if (isObject(content)) return readPart(content, { at, found })
  if (!Array.isArray(content)) return
  for (let i = 0; i < content.length; i++) {
    const part: unknown = content[i]
    if (isObject(part)) readPart(part, { at: `${at}[${i}]`, found })
  }
}

const words = (text: string): ReadonlySet<string> => new Set(text.split(' '))

const textTypes = words('text input_text output_text refusal thinking reasoning')
const mediaTypes = words(
  'image_url input_image image video_url video audio_url input_audio audio file input_file',
)
/** Text, or about text. */
const plainKeys = words(
  'type text refusal thinking reasoning signature annotations logprobs id index name title detail format filename media_type mime_type',
)
const addressKeys = words(
  'image_url video_url audio_url file_url url input_image image video audio input_audio file data file_data',
)

const isOfType = (types: ReadonlySet<string>, type: unknown): boolean =>
  typeof type === 'string' && types.has(type)

const isOfPart = (key: string): boolean =>
  plainKeys.has(key) || addressKeys.has(key) || key === 'file_id'

/** Reads a part of a message. An unknown key may name another customer's image at the backend, or something with a price. */
function readPart(part: object, { at, found }: MediaSpot): void {
  // `for in`, because Object.entries could build megabytes, and only the first entries are looked at.
  for (const key in part) {
    const value = (part as Readonly<Record<string, unknown>>)[key]
    const path = `${at}.${key}`
    if (key === 'type') {
      if (isOfType(textTypes, value) || isOfType(mediaTypes, value)) continue
      if (typeof value !== 'string' || value.length > longestName) throw invalid(path, notAType)
      addUnlisted({ name: value, param: path }, found)
    } else if (addressKeys.has(key)) readAddresses(value, { at: path, found })
    else if (!plainKeys.has(key)) {
      refuseLookalike(key, { at: path, known: isOfPart })
      addUnlisted({ name: key, param: path }, found)
      readLoose(value, { at: path, found })
    }
  }
}

const notAType = `must be a word of at most ${longestName} characters`

function addUnlisted(one: Unlisted, { unlisted }: MediaFound): void {
  if (unlisted.length === mostUnlisted) throw unknown(one.param)
  unlisted.push(one)
}

/** Refuses a key that differs from a known one only by case, because Go backends ignore case. */
function refuseLookalike(
  key: string,
  { at, known }: { readonly at: string; readonly known: (key: string) => boolean },
): void {
  // To change the case of megabytes of keys would take a tenth of a second.
  if (key.length > longestName) return
  const plain = key.toUpperCase().toLowerCase()
  if (plain === key || !known(plain)) return
  const message = `The key "${at}" is spelt almost like "${plain}". Write "${plain}", in small letters.`
  throw new GatewayError('invalid_json', { param: at, message })
}

/** Reads an address, a list of addresses, or an object that holds one. */
function readAddresses(value: unknown, { at, found }: MediaSpot): void {
  if (typeof value === 'string') return readAddress(value, { at, found })
  if (isObject(value)) return readPart(value, { at, found })
  if (!Array.isArray(value)) return
  for (let i = 0; i < value.length; i++) readAddresses(value[i], { at: `${at}[${i}]`, found })
}

/** Reads every text in the value as an address. */
function readAll(value: unknown, { at, found }: MediaSpot): void {
  if (typeof value === 'string') return readAddress(value, { at, found })
  if (typeof value !== 'object' || value === null) return
  for (const [key, inner] of Object.entries(value) as [string, unknown][]) {
    if (!plainKeys.has(key)) readAll(inner, { at: `${at}.${key}`, found })
  }
}

const namesAddress = /ur[il]s?$|^(?:input_)?(?:images?|videos?|audios?)$|href$|^src$/i

/** For objects whose keys the sender chooses, such as documents: a value whose key sounds like an address must be one that may be sent. */
function readLoose(value: unknown, { at, found }: MediaSpot): void {
  if (typeof value !== 'object' || value === null) return
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const inner: unknown = value[i]
      if (typeof inner === 'object') readLoose(inner, { at: `${at}[${i}]`, found })
    }
    return
  }
  if (isOfType(mediaTypes, field(value, 'type'))) return readPart(value, { at, found })
  for (const [key, inner] of Object.entries(value) as [string, unknown][]) {
    const path = `${at}.${key}`
    if (namesAddress.test(key)) readAll(inner, { at: path, found })
    else readLoose(inner, { at: path, found })
  }
}

function readAddress(text: string, { at, found }: MediaSpot): void {
  if (isDataUrl(text)) return
  if (found.addresses.length === mostAddresses) {
    throw invalid(at, `is one of more than ${mostAddresses} addresses`)
  }
  const host = hostOf(text)
  if (host !== undefined) {
    found.addresses.push({ host, param: at })
    return
  }
  if (takesBytes.test(at) && isBase64(text)) return
  const what =
    'must be a data URL (data:image/png;base64,…), or an https address of a host that the model takes media from'
  throw invalid(at, what)
}

/** The paths where base64 may stand without `data:`. */
const takesBytes = /(?:\.data|\.file_data|\.(?:image|video|audio)s?(?:\[\d+\]|\.\d+)?)$/i
