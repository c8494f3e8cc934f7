// A message of a session: as it is kept in Redis, and as it is shown (`chat.message`).
// A row is checked as if anybody could have written it: a row that is no message gives undefined, never an exception.

import { fileKinds } from '../files/file-reference.ts'
import type { FileReference } from '../files/file-reference.ts'
import { field, parsed } from '../http/json/field.ts'
import type { UsageFields } from '../tokens/token-counts.ts'

export const sessionsPath = '/api/chat/sessions'

export function messagePath(place: { readonly session: string; readonly message: string }): string {
  return `${sessionsPath}/${place.session}/messages/${place.message}`
}

export type Role = (typeof roles)[number]
export type MessageStatus = (typeof statuses)[number]

export interface TextPart {
  readonly type: 'text'
  readonly text: string
}

export interface ImagePart {
  readonly type: 'image_url'
  readonly image_url: { readonly url: string; readonly detail?: string }
}

/** Only a reference: a history with many files must not hold their bytes. */
export interface FilePart {
  readonly type: 'file'
  readonly file: FileReference
}

/** A file as its sender names it. */
export interface NamedFile {
  readonly type: 'file'
  readonly file: { readonly file_id: string }
  /** Path of the `file_id` in the request body, for refusals. */
  readonly at: string
}

export type Part = TextPart | ImagePart | FilePart
export type SentPart = TextPart | ImagePart | NamedFile

export type MessageContent<P = Part> = string | readonly P[] | null

/** Content that is only text, or null, has no parts. */
export function partsOf<P>(content: MessageContent<P>): readonly P[] {
  return content === null || typeof content === 'string' ? [] : content
}

export function mapParts<From, To>(
  content: MessageContent<From>,
  map: (part: From) => To,
): MessageContent<To> {
  return content === null || typeof content === 'string' ? content : content.map(map)
}

export interface ToolCall {
  readonly id: string
  readonly type: 'function'
  /** `arguments` is JSON text as the model wrote it, so it may be broken. */
  readonly function: { readonly name: string; readonly arguments: string }
}

export interface MessageUsage extends UsageFields {
  readonly estimated: boolean
}

export interface MessageError {
  readonly message: string
  readonly type: string
  readonly param: string | null
  readonly code: string
}

/** What a client, or the model, says in one turn; it becomes a StoredMessage when it is kept. */
export interface NewMessage<P = Part> {
  readonly role: Role
  readonly content: MessageContent<P>
  readonly tool_calls?: readonly ToolCall[]
  /** Only with role `tool`: id of the call whose result this message is. */
  readonly tool_call_id?: string
  readonly name?: string
}

export interface StoredMessage extends NewMessage {
  readonly id: string
  readonly reasoning?: string
  readonly status: MessageStatus
  readonly finish_reason: string | null
  /** The model's id; null in the client's messages. */
  readonly model: string | null
  readonly usage: MessageUsage | null
  /** Balance tokens. */
  readonly cost: number | null
  readonly error: MessageError | null
  /** Unix seconds. */
  readonly created_at: number
  readonly completed_at: number | null
  /** Id of the hold that pays for the answer; never shown to clients. */
  readonly hold?: string
  /** The estimate of prompt tokens before the backend was asked; never shown to clients. */
  readonly guessed?: number
}

export type PublicMessage = ReturnType<typeof toPublic>

/** As the API shows it (docs/api.md#message): fields without a value are null, except `tool_call_id` and `name`. */
export function toPublic(message: StoredMessage, sessionId: string) {
  const { tool_call_id, name } = message
  return {
    id: message.id,
    object: 'chat.message' as const,
    session_id: sessionId,
    role: message.role,
    content: mapParts(message.content, shown),
    tool_calls: message.tool_calls ?? null,
    ...(tool_call_id !== undefined && { tool_call_id }),
    ...(name !== undefined && { name }),
    reasoning: message.reasoning ?? null,
    status: message.status,
    finish_reason: message.finish_reason,
    model: message.model,
    usage: message.usage,
    cost: message.cost,
    error: message.error,
    created_at: message.created_at,
    completed_at: message.completed_at,
  }
}

function shown(part: Part) {
  if (part.type !== 'file') return part
  const { file_id, filename } = part.file
  return { type: part.type, file: { file_id, filename } }
}

const roles = ['user', 'assistant', 'tool'] as const
const statuses = ['in_progress', 'completed', 'cancelled', 'failed', 'incomplete'] as const

/** Reads a row of the messages hash; returns undefined when the row is missing or no message. */
export function parseStored(row: string | null | undefined): StoredMessage | undefined {
  if (!row) return undefined
  const value = parsed(row)
  return isMessage(value) ? value : undefined
}

const isText = (value: unknown) => typeof value === 'string'
const isCount = (value: unknown) => Number.isSafeInteger(value)
const isFlag = (value: unknown) => typeof value === 'boolean'
const oneOf = (words: readonly unknown[]) => (value: unknown) => words.includes(value)

const orNull = (is: (value: unknown) => boolean) => (value: unknown) => value === null || is(value)
const orAbsent = (is: (value: unknown) => boolean) => (value: unknown) =>
  value === undefined || is(value)
const listOf = (is: (value: unknown) => boolean) => (value: unknown) =>
  Array.isArray(value) && value.every(is)
const shaped = <T = unknown>(shape: Readonly<Record<string, (value: unknown) => boolean>>) => {
  const checks = Object.entries(shape)
  return (value: unknown): value is T => checks.every(([name, is]) => is(field(value, name)))
}

const isTextPart = shaped({ type: oneOf(['text']), text: isText })
const isImagePart = shaped({
  type: oneOf(['image_url']),
  image_url: shaped({ url: isText, detail: orAbsent(isText) }),
})
const isFilePart = shaped({
  type: oneOf(['file']),
  file: shaped({
    file_id: isText,
    kind: oneOf(fileKinds),
    bytes: isCount,
    content_type: isText,
    filename: isText,
    detail: orAbsent(isText),
  }),
})
const isPart = (value: unknown) => isTextPart(value) || isImagePart(value) || isFilePart(value)
const isToolCall = shaped({
  id: isText,
  type: oneOf(['function']),
  function: shaped({ name: isText, arguments: isText }),
})
const isUsage = shaped({
  prompt_tokens: isCount,
  completion_tokens: isCount,
  total_tokens: isCount,
  estimated: isFlag,
})
const isError = shaped({ message: isText, type: isText, param: orNull(isText), code: isText })

const isMessage = shaped<StoredMessage>({
  id: isText,
  role: oneOf(roles),
  content: (content) => content === null || isText(content) || listOf(isPart)(content),
  tool_calls: orAbsent(listOf(isToolCall)),
  tool_call_id: orAbsent(isText),
  name: orAbsent(isText),
  reasoning: orAbsent(isText),
  status: oneOf(statuses),
  finish_reason: orNull(isText),
  model: orNull(isText),
  usage: orNull(isUsage),
  cost: orNull(isCount),
  error: orNull(isError),
  created_at: isCount,
  completed_at: orNull(isCount),
  hold: orAbsent(isText),
  guessed: orAbsent(isCount),
})
