// The runner's steps as calls of the client.

import { createHash } from 'node:crypto'
import { openAsBlob, readFileSync } from 'node:fs'
import type {
  ChatRequest,
  Download,
  List,
  MessageStream,
  OnProgress,
  SendMessage,
  Tollgate,
} from '../src/tollgate.ts'
import { errorOf } from './errors.ts'
import { tellStream } from './streams.ts'

export type Json = { readonly [name: string]: unknown }

export interface Step {
  readonly op: string
  readonly id?: string
  readonly session_id?: string
  readonly params?: object
  readonly body?: object
  readonly content?: string
  readonly messages?: readonly object[]
  readonly idempotency_key?: string
  readonly last_event_id?: string
  readonly take?: number
  readonly filename?: string
  readonly text?: string
  readonly path?: string
  readonly once?: string
  readonly content_type?: string
  readonly sha256?: string
  readonly purpose?: string
  readonly expires_after?: number
  readonly start?: number
  readonly etag?: string
  readonly report?: 'texts' | 'raw' | 'digest'
  readonly leave_after?: number
  readonly during?: readonly { readonly after: number; readonly step: Step }[]
  readonly final?: boolean
}

export type Show = (value: unknown) => void

/** `stream`: the stream during which the step is done. */
export async function act(gate: Tollgate, step: Step, show: Show, stream?: Left): Promise<Json> {
  try {
    const open = opened(gate, step)
    const inside = (inner: Step, left: Left) => act(gate, inner, show, left)
    if (open) return await tellStream({ step, show, open, act: inside })
    return { ok: (await done(gate, step, stream)) ?? null }
  } catch (error) {
    show(error)
    return { error: errorOf(error) }
  }
}

export interface Left {
  close(): void
  readonly cancel?: MessageStream['cancel']
}

function opened(gate: Tollgate, step: Step) {
  const { session_id: session = '', id = '', last_event_id: lastEventId } = step
  const options = { idempotencyKey: step.idempotency_key }
  switch (step.op) {
    case 'chat.stream':
      return gate.chat.completions.create({ ...(step.body as ChatRequest), stream: true })
    case 'messages.create':
      return gate.messages.create(session, messageOf(step), options)
    case 'messages.resume':
      return gate.messages.resume(session, id, { lastEventId })
    case 'messages.active':
      return gate.messages.active(session)
    default:
      return undefined
  }
}

function messageOf({ content, messages, params }: Step) {
  const said = content === undefined ? { messages } : { content }
  return { ...params, ...said } as SendMessage & { stream?: true }
}

function done(gate: Tollgate, step: Step, stream: Left | undefined): Promise<unknown> {
  const { session_id: session = '', id = '', params = {}, take } = step
  const calls: Readonly<Record<string, () => unknown>> = {
    'chat.create': () => gate.chat.completions.create(step.body as ChatRequest),
    'sessions.create': () => gate.sessions.create(params),
    'sessions.retrieve': () => gate.sessions.retrieve(id),
    'sessions.update': () => gate.sessions.update(id, params),
    'sessions.delete': () => gate.sessions.delete(id),
    'sessions.list': () => items(gate.sessions.list(params), take),
    'messages.send': () =>
      gate.messages.create(
        session,
        { ...messageOf(step), stream: false },
        { idempotencyKey: step.idempotency_key },
      ),
    'messages.retrieve': () => gate.messages.retrieve(session, id),
    'messages.cancel': () => gate.messages.cancel(session, id),
    'messages.list': () => items(gate.messages.list(session, params), take),
    'files.upload': () => upload(gate, step),
    'files.content': () => content(gate, step),
    'files.retrieve': () => gate.files.retrieve(id),
    'files.delete': () => gate.files.delete(id),
    'files.list': () => items(gate.files.list(params), take),
    'billing.balance': () => gate.billing.balance(),
    'billing.transactions': () => items(gate.billing.transactions(params), take),
    'billing.usage': () => items(gate.billing.usage(params), take),
    'models.list': () => items(gate.models.list(), take),
    'models.retrieve': () => gate.models.retrieve(id),
    'stream.cancel': () => stream?.cancel?.(),
    'stream.close': () => stream?.close(),
    memory: () => memory(),
  }
  const call = calls[step.op]
  if (!call) throw new Error(`unknown op ${step.op}`)
  return Promise.resolve(call())
}

async function items<T>(list: List<T>, take = Infinity): Promise<readonly T[]> {
  const taken: T[] = []
  for await (const item of list) {
    taken.push(item)
    if (taken.length >= take) break
  }
  return taken
}

async function upload(gate: Tollgate, step: Step): Promise<Json> {
  const { progress, onProgress } = recorder()
  const file = await gate.files.upload(await fileOf(step), {
    sessionId: step.session_id ?? '',
    filename: step.filename,
    contentType: step.content_type,
    sha256: step.sha256,
    purpose: step.purpose,
    expiresAfter: step.expires_after,
    onProgress,
  })
  return { file, progress }
}

type Reported = readonly [bytes: number, total: number | null]

function recorder(): { readonly progress: readonly Reported[]; readonly onProgress: OnProgress } {
  const progress: Reported[] = []
  return { progress, onProgress: (bytes, total) => void progress.push([bytes, total ?? null]) }
}

async function fileOf({ text, path, once }: Step) {
  if (path !== undefined) return (await openAsBlob(path)) as Blob
  if (text !== undefined) return new Blob([text])
  return (async function* () {
    yield new TextEncoder().encode(once)
  })()
}

async function content(
  gate: Tollgate,
  { id = '', start, etag, take = Infinity }: Step,
): Promise<Json> {
  const { progress, onProgress } = recorder()
  const download: Download = await gate.files.content(id, { start, etag, onProgress })
  const hash = createHash('sha256')
  let bytes = 0
  for await (const piece of download) {
    const wanted = piece.subarray(0, take - bytes)
    hash.update(wanted)
    bytes += wanted.length
    if (bytes >= take) break
  }
  const { contentType, filename } = download
  return { bytes, sha256: hash.digest('hex'), content_type: contentType, filename, progress }
}

function memory(): Json {
  const status = readFileSync('/proc/self/status', 'utf8')
  const of = (name: string) => 1024 * Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)?.[1])
  return { rss: of('VmRSS'), peak: of('VmHWM') }
}
