// How events are written, one grammar a mount (sessions' is sessions/frames.ts). Data values stay byte for byte as they came (latin1, one char a byte); one
// of several lines stays so.

import type { SseEvent } from '../plugin.ts'

export interface Grammar {
  /** A backend's event. */
  frame(event: SseEvent): string
}

/** Of `/v1`: nothing but what the backend said. */
export const plain: Grammar = {
  frame({ event, data }) {
    return event === undefined ? fields(data) : `event: ${event}\n${fields(data)}`
  },
}

function fields(data: string): string {
  return `data: ${data.includes('\n') ? data.replaceAll('\n', '\ndata: ') : data}\n\n`
}

export const doneData = '[DONE]'

/** The gateway's own last chunk where the output was ended by its length. */
export function lengthChunk(id: string, model: string): string {
  return latin1(
    JSON.stringify({
      id,
      object: 'chat.completion.chunk',
      created: Math.floor(Date.now() / 1000),
      model,
      choices: [{ index: 0, delta: {}, finish_reason: 'length' }],
    }),
  )
}

export const latin1 = (text: string): string => Buffer.from(text).toString('latin1')
