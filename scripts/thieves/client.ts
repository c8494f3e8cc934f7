// One request of a thief's, and the moment at which it leaves. Reads a stream event by event, as far as it is worth it.

import { request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { once } from 'node:events'
import { lastMark } from './speech.ts'
import type { Truth } from './truth.ts'

/** When a client goes: never; at the nth content; at the last one; when an end was said; when all was made; after so long. */
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
  /** Leaves when it says so. */
  readonly signal?: AbortSignal
  /** In place of leaving: a cancel, after which the stream is read to its end. */
  readonly cancel?: (location: string) => Promise<void>
}

export interface Answered {
  /** 0 where the client left before there was one. */
  readonly status: number
  readonly code: string
  readonly hasLeft: boolean
  /** Of answers that were read to their end. */
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
      // The first event is the role's.
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
