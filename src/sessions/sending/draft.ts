// A message for a backend: JSON text, or a draft while its files are still to be read; and the request body that is
// made of these texts. history.ts decides which messages go into it.

import { partText } from '../../files/file-reference.ts'
import type { BackendPart, FileReference } from '../../files/file-reference.ts'
import { partsOf } from '../message.ts'
import type { MessageContent, Part } from '../message.ts'

/** A message as JSON text; a message with files becomes text when its files have been read. */
export type Draft = string | Unfilled

interface Unfilled {
  readonly message: object
  readonly content: readonly Part[]
}

/** The request body for a backend; parameters stay byte for byte as the client wrote them. */
export function composeBody(request: {
  readonly model: string
  readonly messages: readonly string[]
  readonly parameters: ReadonlyMap<string, string>
}): Buffer {
  const { model, messages, parameters } = request
  const members = [...parameters].map(([name, text]) => `,${JSON.stringify(name)}:${text}`)
  const head = `{"model":${JSON.stringify(model)},"stream":true,"messages":[`
  return Buffer.from(`${head}${messages.join(',')}]${members.join('')}}`)
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
