// Sends one request of a thief, and leaves at the chosen moment. Reads a stream event by event, only as far as is
// needed.

import { request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { once } from 'node:events'
import { lastMark } from './speech.ts'
import type { Truth } from './truth.ts'

/** When a client leaves: never; at content number `nth`; at the last content; at the finish; when all is generated; after a time. */
export type Leaving =
  | { readonly at: 'end' }
  | { readonly at: 'content'; readonly nth: number }
  | { readonly at: 'last' }
  | { readonly at: 'finish' }
  | { readonly at: 'made' }
  | { readonly at: 'time'; readonly ms: number }

export interface Asking {
  readonly url: string
  readonly path: string
  readonly key: string
  readonly body: string
  readonly trace: string
  readonly leaving: Leaving
  readonly truth: Truth
  /** The client leaves when the signal fires. */
  readonly signal?: AbortSignal
  /** Called in place of leaving: cancels the message, and then the client reads the stream to its end. */
  readonly cancel?: (location: string) => Promise<void>
}

export interface Answered {
  /** 0 when the client left before it had a status. */
  readonly status: number
  readonly code: string
  readonly hasLeft: boolean
  /** The text of an answer that was read to its end. */
  readonly text: string
}

const nothing: Answered = { status: 0, code: '', hasLeft: true, text: '' }

export async function ask(asking: Asking): Promise<Answered> {
  const { url, path, key, body, trace, leaving, truth } = asking
  const req = request(url + path, {
    method: 'POST',
    agent: false,
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      traceparent: `00-${trace}-00000000000000a1-01`,
    },
  })
  const leave = () => {
    truth.hasLeft = true
    req.destroy()
  }
  if (leaving.at === 'made') void truth.made.then(leave)
  asking.signal?.addEventListener('abort', leave)
  const timer = leaving.at === 'time' ? setTimeout(leave, leaving.ms) : undefined
  try {
    const answering = once(req, 'response') as Promise<[IncomingMessage]>
    req.end(body)
    const [res] = await answering
    return await read(res, asking, leave)
  } catch (error) {
    if (truth.hasLeft) return nothing
    return { ...nothing, hasLeft: false, code: String(error) }
  } finally {
    clearTimeout(timer)
  }
}

async function read(res: IncomingMessage, asking: Asking, leave: () => void): Promise<Answered> {
  const status = res.statusCode ?? 0
  let text = ''
  let seen = 0
  let isCancelled = false
  res.setEncoding('utf8')
  for await (const piece of res as AsyncIterable<string>) {
    text += piece
    const end = text.lastIndexOf('\n\n')
    if (status !== 200 || end < seen || isCancelled) continue
    if (!isTime(text.slice(0, end), text.slice(seen, end), asking.leaving)) {
      seen = end
      continue
    }
    seen = end
    if (!asking.cancel) {
      leave()
      return { status, code: '', hasLeft: true, text }
    }
    isCancelled = true
    asking.truth.hasLeft = true
    await asking.cancel(res.headers['content-location'] ?? '')
  }
  return { status, code: codeIn(text), hasLeft: isCancelled, text }
}

function isTime(all: string, fresh: string, leaving: Leaving): boolean {
  switch (leaving.at) {
    case 'content':
      // The first event has only the role.
      return fresh !== '' && all.split('\ndata: ').length > leaving.nth + 1
    case 'last':
      return fresh.includes(lastMark)
    case 'finish':
      return /"finish_reason":"/.test(fresh)
    default:
      return false
  }
}

function codeIn(text: string): string {
  return /"code":"([a-z_]+)"/.exec(text)?.[1] ?? ''
}
