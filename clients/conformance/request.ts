// What a client sent: the head as it came, and the body read as its type says. Of long bodies only the hash is kept.

import busboy from 'busboy'
import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { once } from 'node:events'

interface SentFile {
  readonly filename: string
  readonly type: string
  readonly bytes: number
  readonly sha256: string
}

export interface Sent {
  readonly number: number
  readonly method: string
  /** With its query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string | undefined>>
  /** The value of a JSON body. */
  readonly json?: unknown
  /** Names and values of a form in the order of the parts, the file among them. */
  readonly form?: readonly (readonly [string, string | SentFile])[]
  /** The host of the request's URL, when the request was sent to a proxy. */
  readonly proxied?: string
  readonly isOther: boolean
  /** The client left before the answer was complete. */
  closedEarly: boolean
  /** Bytes of the answer written to the connection so far. */
  written: number
}

let count = 0

export async function readRequest(
  request: IncomingMessage,
  { isOther, isEarly }: { readonly isOther: boolean; readonly isEarly: boolean },
): Promise<Sent> {
  const url = /^(?:http:\/\/([^/]+))?(.*)$/.exec(request.url ?? '')
  const type = request.headers['content-type'] ?? ''
  const head = {
    number: ++count,
    method: request.method ?? '',
    path: url?.[2] ?? '',
    headers: request.headers as Readonly<Record<string, string>>,
    proxied:
      url?.[1] ?? (request.headers.host?.endsWith('.test') ? request.headers.host : undefined),
    isOther,
    closedEarly: false,
    written: 0,
  }
  if (isEarly) return head
  if (type.startsWith('multipart/')) return { ...head, form: await readForm(request) }
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const text = Buffer.concat(chunks).toString()
  return text === '' ? head : { ...head, json: JSON.parse(text) as unknown }
}

async function readForm(request: IncomingMessage): Promise<Sent['form']> {
  const form: (readonly [string, string | SentFile])[] = []
  const parser = busboy({
    headers: request.headers as Record<string, string>,
    defParamCharset: 'utf8',
    limits: { fileSize: Infinity },
  })
  parser.on('field', (name, value) => form.push([name, value]))
  parser.on('file', (name, stream, { filename, mimeType }) => {
    const hash = createHash('sha256')
    let bytes = 0
    stream.on('data', (chunk: Buffer) => {
      hash.update(chunk)
      bytes += chunk.length
    })
    stream.on('end', () => {
      const sha256 = hash.digest('hex')
      form.push([name, { filename: filename ?? '', type: mimeType, bytes, sha256 }])
    })
  })
  request.pipe(parser)
  await once(parser, 'close')
  return form
}
