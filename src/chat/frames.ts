// How events are written, one grammar for each mount (the sessions' grammar is in sessions/streams/frames.ts). Data
// values stay byte for byte as they came (latin1, one char a byte); a value of several lines keeps its lines.

import type { Endpoint } from '../config/endpoints.ts'
import type { SseEvent } from '../exchange.ts'

export interface Grammar {
  /** A backend's event. */
  frame(event: SseEvent): string
  /** Called when the frames so far are dropped, because another target is asked. */
  restart?(): void
}

/** For `/v1`: nothing but what the backend sent. */
export const plainGrammar: Grammar = {
  frame({ event, data }) {
    return event === undefined ? fields(data) : `event: ${event}\n${fields(data)}`
  },
}

function fields(data: string): string {
  return `data: ${data.includes('\n') ? data.replaceAll('\n', '\ndata: ') : data}\n\n`
}

export const doneData = '[DONE]'

export interface LengthChunk {
  readonly id: string
  readonly model: string
  readonly endpoint: Endpoint
  /** The index of the choice that the chunk ends. */
  readonly index: number
}

/** The gateway's own last chunk of a choice whose output was ended by its length. */
export function lengthChunk({ id, model, endpoint, index }: LengthChunk): string {
  const isChat = endpoint === 'chat'
  const object = isChat ? 'chat.completion.chunk' : 'text_completion'
  const created = Math.floor(Date.now() / 1000)
  const said = isChat ? { delta: {} } : { text: '', logprobs: null }
  const choices = [{ index, ...said, finish_reason: 'length' }]
  return latin1(JSON.stringify({ id, object, created, model, choices }))
}

/** The body of a refusal as the data of an event. CR becomes LF, because a CR would end the event's line. */
export function linesOf(body: string | Buffer): string {
  const text = typeof body === 'string' ? latin1(body) : body.toString('latin1')
  return text.replaceAll(/\r\n?/g, '\n')
}

export const latin1 = (text: string): string => Buffer.from(text).toString('latin1')
