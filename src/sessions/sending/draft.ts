// A message on its way to a backend: JSON text, or a draft of it while its files have still to be read; and the request that
// is made of such texts. Which messages go is history.ts's matter.

import { partText } from '../../files/file-reference.ts'
import type { BackendPart, FileReference } from '../../files/file-reference.ts'
import { partsOf } from '../message.ts'
import type { MessageContent, Part } from '../message.ts'

/** A message as JSON text; one with files is made when they are there. */
export type Draft = string | Unfilled

interface Unfilled {
  readonly message: object
  readonly content: readonly Part[]
}

/** The request for a backend: parameters byte for byte. */
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
  // Added up, not joined: a rope of megabytes is copied once, when the body is made.
  const content = draft.content
    .map((one) => (one.type === 'file' ? partText(part(one.file)) : JSON.stringify(one)))
    .reduce((all, text) => `${all},${text}`)
  // No text has this in it: its quotes would be escaped.
  const message = JSON.stringify({ ...draft.message, content: 0 })
  return message.replace('"content":0', () => `"content":[${content}]`)
}

export function filesIn(draft: Draft): readonly FileReference[] {
  return typeof draft === 'string' ? [] : filesOf(draft.content)
}

export function filesOf(content: MessageContent): readonly FileReference[] {
  return partsOf(content).flatMap((part) => (part.type === 'file' ? [part.file] : []))
}
