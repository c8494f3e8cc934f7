// How many tokens of a prompt the backend counts: all text of the body as templates write it, images by their pixels,
// sound by its bytes. It does not use the gateway's estimate.

import { countTokens } from 'gpt-tokenizer'

type Json = Readonly<Record<string, unknown>>

/** Tokens of a message's role and separators, as templates write them. */
const messageTokens = 4
/** Pixels for one token, in models that see patches of 28 × 28 pixels. */
const patchPixels = 28 * 28
/** Ten tokens a second of sound: WAV is 16 kHz mono with 16 bits, MP3 a voice at 8 kbit/s. */
const soundBytesPerToken = { wav: 3200, mp3: 100 }

export function chatPrompt(body: Json): number {
  const messages = listOf(body['messages'])
  // Fields that servers put into the prompt as JSON, besides the messages.
  const written = ['tools', 'functions', 'response_format', 'documents', 'guided_json']
  const beside = written.map((name) => (body[name] ? textTokens(JSON.stringify(body[name])) : 0))
  const said = messages.map((message) => messageTokens + valueTokens(message))
  return sum(said) + sum(beside)
}

/** The prompt of Completions and Embeddings: a text, a list of texts, token ids, or lists of them. */
export function inputPrompt(input: unknown): number {
  if (typeof input === 'string') return textTokens(input)
  if (typeof input === 'number') return 1
  return sum(listOf(input).map(inputPrompt))
}

/** A cross-encoder reads the query again with each document. */
export function rerankPrompt(body: Json): number {
  const query = valueTokens(body['query'])
  return sum(listOf(body['documents']).map((one) => query + valueTokens(one) + messageTokens))
}

/** Long texts are cut into slices, because the tokenizer takes quadratic time for text without spaces. */
const sliceChars = 1000

function textTokens(text: string): number {
  let tokens = 0
  for (let from = 0; from < text.length;) {
    const most = from + sliceChars
    const space = most < text.length ? text.lastIndexOf(' ', most) : text.length
    const to = space > most - 100 ? space : most
    tokens += countTokens(text.slice(from, to))
    from = to
  }
  return tokens
}

/** Tokens of the strings at any depth. Keys are not counted: in a message they belong to the template. */
function valueTokens(value: unknown): number {
  if (typeof value === 'string') return textTokens(value)
  if (Array.isArray(value)) return sum(value.map(valueTokens))
  if (typeof value !== 'object' || value === null) return 0
  const part = value as Json
  if (part['type'] === 'image_url') return imageTokens(urlOf(part['image_url']))
  if (part['type'] === 'input_audio') return soundTokens(part['input_audio'])
  const isMark = (name: string) => name === 'role' || name === 'type'
  return sum(Object.entries(part).map(([name, one]) => (isMark(name) ? 0 : valueTokens(one))))
}

function urlOf(image: unknown): string {
  const url = typeof image === 'object' && image !== null ? (image as Json)['url'] : image
  return typeof url === 'string' ? url : ''
}

/** Reads width and height, which are at fixed places of a PNG. */
function imageTokens(url: string): number {
  const head = Buffer.from(url.slice(url.indexOf(',') + 1, 64 + url.indexOf(',')), 'base64')
  if (head.length < 24 || head.toString('latin1', 1, 4) !== 'PNG') return 0
  return Math.ceil((head.readUInt32BE(16) * head.readUInt32BE(20)) / patchPixels)
}

function soundTokens(value: unknown): number {
  const { data, format } = Object(value) as Json
  const perToken = format === 'mp3' ? soundBytesPerToken.mp3 : soundBytesPerToken.wav
  return typeof data === 'string' ? Math.ceil((data.length * 0.75) / perToken) : 0
}

/** Texts in parts other than text, which the backend would take for addresses and fetch. */
export function addressesIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return /^(?!data:)[a-z]+:\/\//i.test(value) ? [value] : []
  if (typeof value !== 'object' || value === null || (value as Json)['type'] === 'text') return []
  return Object.entries(value).flatMap(([name, one]) =>
    name === 'content' && typeof one === 'string' ? [] : addressesIn(one),
  )
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0)
