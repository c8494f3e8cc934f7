// What a client sends to a session: the new turns, in both forms of the body (`content` and `messages`), how they are to
// be answered, and parameters that go to the backend as the client wrote them, by the table in chat/parameters.ts.
// `parseSend` checks all that needs no session; `checkSend` checks what depends on the model.

import { hostOf } from '../../chat/address.ts'
import type { Unlisted } from '../../chat/media.ts'
import { judge, parameterNames, refusalFor, rulesOf } from '../../chat/parameter-check.ts'
import { readMaximum } from '../../chat/request.ts'
import type { Limits, Model } from '../../config/config.ts'
import { GatewayError } from '../../errors.ts'
import { scanJson } from '../../http/json/scan.ts'
import type { JsonScan } from '../../http/json/scan.ts'
import { invalid, isObject, missing, refuseUnknownKeys } from '../../http/refusals.ts'
import { refuseTwice } from '../../http/json/twice.ts'
import { field } from '../../http/json/field.ts'
import { readName, readParts, readTextParts, readToolCalls } from './content.ts'
import type { Spot } from './content.ts'
import { partsOf } from '../message.ts'
import type { ImagePart, NewMessage, SentPart, TextPart } from '../message.ts'

export interface Parameters {
  /** Name → JSON text, byte for byte; in the order of the body. */
  readonly parameters: ReadonlyMap<string, string>
  /** Parameters among them that only a model's `extra_parameters` can allow. */
  readonly unlisted: readonly Unlisted[]
  /** The lower of `max_tokens` and `max_completion_tokens`; Infinity where there is none. */
  readonly maxTokens: number
}

export interface Send extends Parameters {
  /** At least one; the last one is of `user` or `tool`. */
  readonly turns: readonly NewMessage<SentPart>[]
  /** The field of the body that has the turns. */
  readonly field: 'content' | 'messages'
  /** Undefined: the session's model. */
  readonly model?: string
  /** Undefined: the Accept header decides. */
  readonly stream?: boolean
  readonly onDisconnect: 'continue' | 'cancel'
}

export interface SendLimits extends Pick<Limits, 'attachments' | 'jsonApiBytes'> {
  /** There is a store for files and images. */
  readonly takesFiles: boolean
}

/** Each turn is a row, and one script writes all rows. */
const maxTurns = 256

/** Throws invalid_json, missing_, invalid_ or unknown_parameter, unsupported_attachment, body_too_large. */
export function parseSend(body: Buffer, limits: SendLimits): Send {
  const scan = scanJson(body, ownKeys)
  const turns = readTurns(scan, limits)
  if (body.length - dataUrlBytes(turns) > limits.jsonApiBytes) {
    const message = `A message has at most ${limits.jsonApiBytes} bytes beside its images. Shorten it.`
    throw new GatewayError('body_too_large', { message })
  }
  const onDisconnect = scan.value('on_disconnect') ?? 'continue'
  if (onDisconnect !== 'continue' && onDisconnect !== 'cancel') {
    throw invalid('on_disconnect', 'must be "continue" or "cancel"')
  }
  return {
    turns,
    field: scan.members.has('messages') && scan.value('messages') !== null ? 'messages' : 'content',
    model: readModel(scan),
    stream: readStream(scan),
    onDisconnect,
    ...readParameters(scan),
  }
}

/** Throws `unknown_parameter` or `unsupported_attachment` where this model does not take what was sent. */
export function checkSend({ turns, unlisted }: Send, model: Model): void {
  const refusal = refusalFor({ unlisted, addresses: [] }, model)
  if (refusal) throw refusal
  const images = imagesIn(turns)
  if (images.length === 0) return
  if (!model.accepts.includes('image')) {
    const message = `The model does not accept images, only ${model.accepts.join(', ')}. Choose one that does.`
    throw new GatewayError('unsupported_attachment', { message })
  }
  const addresses = images.flatMap(({ image_url: { url } }) => {
    const host = hostOf(url)
    return host === undefined ? [] : [{ host, param: 'image_url.url' }]
  })
  const unsafe = refusalFor({ unlisted: [], addresses }, model)
  if (unsafe) throw unsafe
}

function readTurns(scan: JsonScan, limits: SendLimits): readonly NewMessage<SentPart>[] {
  const { attachments, takesFiles } = limits
  const content = readOnce(scan, 'content')
  const messages = readOnce(scan, 'messages')
  if (content !== undefined && messages !== undefined) {
    throw invalid('messages', 'and "content" must not both be given')
  }
  if (content !== undefined) {
    return [
      { role: 'user', content: readParts(content, { at: 'content', attachments, takesFiles }) },
    ]
  }
  if (messages === undefined) throw missing('content')
  if (!Array.isArray(messages)) throw invalid('messages', 'must be a list')
  if (messages.length === 0) throw invalid('messages', 'must not be empty')
  if (messages.length > maxTurns) throw invalid('messages', `has more than ${maxTurns} entries`)
  const turns = messages.map((message: unknown, i) =>
    readTurn(message, { at: `messages[${i}]`, attachments, takesFiles }),
  )
  if (turns.at(-1)?.role === 'assistant') throw invalid('messages', 'must end with user or tool')
  return turns
}

function readOnce(scan: JsonScan, name: string): unknown {
  const value = scan.value(name) ?? undefined
  const member = scan.members.get(name)
  if (member) refuseTwice(name, value, member)
  return value
}

const belongsToSession = `is not possible here: instructions belong to the session. PATCH its "instructions"`
const otherRoles: ReadonlyMap<unknown, string> = new Map([
  ['system', belongsToSession],
  ['developer', belongsToSession],
  ['function', 'is outdated. Use "tool"'],
])

function readTurn(message: unknown, spot: Spot): NewMessage<SentPart> {
  const { at } = spot
  if (!isObject(message)) throw invalid(at, 'must be an object')
  const role = field(message, 'role')
  if (role === 'user') {
    refuseUnknownKeys(message, { known: userKeys, at })
    const content = readParts(field(message, 'content'), { ...spot, at: `${at}.content` })
    return { role, content, ...readSpeaker(message, at) }
  }
  if (role === 'assistant') return readAssistant(message, at)
  if (role === 'tool') {
    refuseUnknownKeys(message, { known: toolKeys, at })
    const tool_call_id = readName(field(message, 'tool_call_id'), `${at}.tool_call_id`)
    const content = readTextParts(field(message, 'content'), `${at}.content`)
    return { role, content, tool_call_id, ...readSpeaker(message, at) }
  }
  if (role === undefined) throw missing(`${at}.role`)
  throw invalid(`${at}.role`, otherRoles.get(role) ?? 'must be "user", "assistant" or "tool"')
}

const userKeys = new Set(['role', 'content', 'name'])
const toolKeys = new Set([...userKeys, 'tool_call_id'])
/** SDKs put the later fields into every answer, and clients send answers back as they are; these fields are dropped. */
const assistantKeys = new Set([
  ...userKeys,
  'tool_calls',
  'annotations',
  'audio',
  'function_call',
  'reasoning',
  'reasoning_content',
  'refusal',
])

function readAssistant(message: object, at: string): NewMessage<TextPart> {
  refuseUnknownKeys(message, { known: assistantKeys, at })
  const calls = field(message, 'tool_calls') ?? undefined
  const tool_calls = calls === undefined ? undefined : readToolCalls(calls, `${at}.tool_calls`)
  const said = field(message, 'content') ?? ''
  if (said === '' && !tool_calls) throw missing(`${at}.content`)
  const content = said === '' ? null : readTextParts(said, `${at}.content`)
  return {
    role: 'assistant',
    content,
    ...(tool_calls && { tool_calls }),
    ...readSpeaker(message, at),
  }
}

function readSpeaker(message: object, at: string): { name?: string } {
  const name = field(message, 'name') ?? undefined
  return name === undefined ? {} : { name: readName(name, `${at}.name`) }
}

function readModel(scan: JsonScan): string | undefined {
  const model = scan.value('model') ?? undefined
  if (model === undefined || (typeof model === 'string' && model !== '')) return model
  throw invalid('model', 'must be the id of a model')
}

function readStream(scan: JsonScan): boolean | undefined {
  const stream = scan.value('stream') ?? undefined
  if (stream === undefined || typeof stream === 'boolean') return stream
  throw invalid('stream', 'must be true, false or null')
}

function imagesIn(turns: readonly NewMessage<SentPart>[]): readonly ImagePart[] {
  const parts = turns.flatMap(({ content }) => partsOf(content))
  return parts.filter((part) => part.type === 'image_url')
}

function dataUrlBytes(turns: readonly NewMessage<SentPart>[]): number {
  const urls = imagesIn(turns).map(({ image_url: { url } }) => url)
  return urls.reduce((sum, url) => sum + (hostOf(url) === undefined ? url.length : 0), 0)
}

/** The message's own fields; all others are parameters. */
const sendFields = new Set(['content', 'messages', 'model', 'stream', 'on_disconnect'])

/** Checked, but not passed on to the backend. `store` is what a session does anyway. */
const dropped = new Set(['n', 'best_of', 'store'])

/** Refused unless null; the text tells the client what to do instead. */
const refused: Readonly<Record<string, string>> = {
  audio: 'is not possible in a session, which keeps text only',
  function_call: 'is of the old interface. Use "tool_choice"',
  functions: 'is of the old interface. Use "tools"',
  metadata: "can't be set on a message. Set it on the session",
}

/** For scanJson, which refuses other spellings of these keys. */
export const ownKeys: ReadonlySet<string> = new Set([...sendFields, ...parameterNames])

const rules = rulesOf('chat')

/** Throws `invalid_parameter` and `unknown_parameter`; `checkSend` judges the unlisted ones, by the model. */
export function readParameters(scan: JsonScan): Parameters {
  const parameters = new Map<string, string>()
  const unlisted: Unlisted[] = []
  for (const [key, member] of scan.members) {
    if (sendFields.has(key)) continue
    const value = scan.value(key)
    if (Object.hasOwn(refused, key) && value !== null) throw invalid(key, refused[key] ?? '')
    checkOwn(key, value)
    if (dropped.has(key) || Object.hasOwn(refused, key)) continue
    parameters.set(key, scan.text(key) ?? 'null')
    const rule = rules.get(key)
    if (rule) judge(key, { rule, scan, member, unlisted })
    else unlisted.push({ name: key, param: key })
  }
  return { parameters, unlisted, maxTokens: readMaximum(scan).most }
}

function checkOwn(key: string, value: unknown): void {
  if (value === null) return
  if ((key === 'n' || key === 'best_of') && value !== 1) {
    throw invalid(key, 'must be 1: a message has one answer')
  }
  if (key === 'store' && typeof value !== 'boolean') throw invalid('store', 'must be true or false')
  if (key === 'modalities' && JSON.stringify(value) !== '["text"]') {
    throw invalid(key, 'must be ["text"]: a session keeps text only')
  }
}
