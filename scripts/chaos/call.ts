// One request to a gateway that may be dead, frozen or dying: never throws, always ends.

import { request } from 'node:http'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { once } from 'node:events'

export interface Calling {
  readonly key: string
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Bytes are sent as they are, other values as JSON. */
  readonly body?: unknown
  /** The client leaves when it has read this many bytes. */
  readonly leavesAfter?: number
}

export interface Called {
  /** 0 when no answer came. */
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly bytes: Buffer
  /** The answer came to its end. */
  readonly isWhole: boolean
}

/** Longer than any answer takes; a client that waits longer has met a gateway that hangs. */
const patienceMs = 60_000

const nothing: Called = { status: 0, headers: {}, bytes: Buffer.alloc(0), isWhole: false }

export async function call(url: string, calling: Calling): Promise<Called> {
  const { key, body, method = body === undefined ? 'GET' : 'POST', leavesAfter } = calling
  const sent = Buffer.isBuffer(body) || body === undefined ? body : json(body)
  const req = request(url, {
    method,
    agent: false,
    headers: {
      authorization: `Bearer ${key}`,
      ...(sent && { 'content-type': 'application/json', 'content-length': sent.length }),
      ...calling.headers,
    },
  })
  const isLate = setTimeout(() => req.destroy(new Error('late')), patienceMs)
  try {
    const answering = once(req, 'response') as Promise<[IncomingMessage]>
    req.end(sent)
    const [res] = await answering
    req.on('error', () => undefined)
    const bytes = await read(res, leavesAfter)
    return { status: res.statusCode ?? 0, headers: res.headers, bytes, isWhole: res.complete }
  } catch (error) {
    if (error instanceof Error && error.message === 'late') throw new Error(`${url} hangs`)
    return nothing
  } finally {
    clearTimeout(isLate)
    req.on('error', () => undefined)
    req.destroy()
  }
}

const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value))

async function read(res: IncomingMessage, leavesAfter = Infinity): Promise<Buffer> {
  const parts: Buffer[] = []
  let length = 0
  try {
    for await (const part of res as AsyncIterable<Buffer>) {
      parts.push(part)
      length += part.length
      if (length >= leavesAfter) break
    }
  } catch {
    // What came before the cut is returned.
  }
  return Buffer.concat(parts)
}

/** The code of an error, in a body or at the end of a stream; or ''. */
export function codeIn({ bytes }: Called): string {
  return (
    /"code":\s*"([a-z_]+)"/.exec(bytes.toString('latin1', Math.max(0, bytes.length - 2000)))?.[1] ??
    ''
  )
}
