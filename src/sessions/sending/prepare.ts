// Prepares a send for its hold, its rows and its backend: reads what it needs of its session, checks it against the
// model, chooses the history that fits, and makes the request and the rows of the new messages. When the send has files,
// the request is made again once the files are read. Writes nothing.

import { chatRow } from '../../config/endpoints.ts'
import { parseChatRequest } from '../../chat/request.ts'
import type { ChatRequest } from '../../chat/request.ts'
import type { Model } from '../../config/config.ts'
import { GatewayError } from '../../errors.ts'
import { inlineBytes, overcounted, partOf, standIn, tokensOf } from '../../files/file-reference.ts'
import type { BackendPart, FileReference } from '../../files/file-reference.ts'
import type { NewImage, WantedFiles } from '../../files/message-files.ts'
import type { FileRow } from '../../files/file-row.ts'
import { FairTurns, inTurns } from '../../sharing/fair-turns.ts'
import type { Effort } from '../../tokens/count-pieces.ts'
import { parseAhead } from '../../http/json/scan.ts'
import { idAfter, newId } from '../../ids.ts'
import { attach, fill, filesIn, filesOf } from './attachments.ts'
import type { Attached } from './attachments.ts'
import { HistoryBuilder, composeBody } from './history.ts'
import type { History } from './history.ts'
import { checkSend } from './parse-send.ts'
import type { Send } from './parse-send.ts'
import { textAt } from '../../redis/scripts.ts'
import type { Reply } from '../../redis/scripts.ts'
import { unlessAsleep } from '../asleep/waking.ts'
import type { Waking } from '../asleep/waking.ts'
import { checkSession, sessionKeys } from '../library.ts'
import type { SessionScripts } from '../library.ts'
import { parseStored } from '../message.ts'
import type { NewMessage, StoredMessage } from '../message.ts'

export interface Prepared {
  /** Has words in the place of files; its estimate of tokens includes the files. */
  readonly request: ChatRequest
  /** The answer's row, `in_progress`; the message keeps this id. */
  readonly draft: StoredMessage
  /** The new turns with their ids, then the draft. */
  readonly stored: readonly StoredMessage[]
  /** Files to read or store before the backend is asked; undefined when there are none. */
  readonly filling: Filling | undefined
}

export interface Filling extends WantedFiles {
  /** Images that came within the message, to be stored. */
  readonly images: readonly NewImage[]
  /** Bytes that the files to be read take in the request. */
  readonly bytes: number
  /** Takes contents by file id; words replace a file without content. The estimate stays as it was. */
  request(contents: ReadonlyMap<string, Buffer>): Promise<ChatRequest>
}

export interface PrepareOptions {
  readonly send: Send
  readonly context: Context
  readonly model: Model
  readonly hold: string
  /** The account: long work is done in turns with other accounts. */
  readonly ref: string
  /** Most bytes of all files and images in a request. */
  readonly inlineBytes: number
  /** The lower limit of plan and key: a longer history could never pass it. */
  readonly tokensPerMinute?: number | undefined
  /** Rows of the files that the turns name, by id; undefined when there is no store. */
  readonly files?: ReadonlyMap<string, FileRow> | undefined
}

/** One send of an account at a time: each may take a history of megabytes, also if it is refused afterwards. */
const sends = new FairTurns(Infinity)

/**
 * To be called only with a proven key, because it waits for other sends of the account. Throws invalid_parameter,
 * unknown_parameter, unsupported_attachment, body_too_large.
 */
export function prepare(options: PrepareOptions): Promise<Prepared> {
  return sends.run(options.ref, () => prepareNow(options))
}

async function prepareNow(options: PrepareOptions): Promise<Prepared> {
  const { send, context, model, hold } = options
  checkSend(send, model)
  const attached = attach(send.turns, { model, files: options.files })
  const { messages, promptTokens: guessed } = await historyOf(attached.turns, options)
  const compose: Compose = async (part) => {
    const texts: string[] = []
    for (const draft of messages) {
      // Each image costs one or two copies of megabytes.
      const filled = () => fill(draft, part)
      texts.push(typeof draft === 'string' ? draft : await inTurns(options.ref, filled))
    }
    return await requestOf(texts, options)
  }
  const files = messages.flatMap(filesIn)
  const request = withFileTokens(await compose(standIn), files)
  const { promptTokens } = request
  const filling = fillingOf(files, { ...attached, compose, promptTokens })
  const stored = rowsOf(attached.turns, { context, model, hold, guessed })
  const draft = stored.at(-1)
  if (!draft) throw new TypeError('a send without rows')
  return { request, draft, stored, filling }
}

async function historyOf(
  turns: readonly NewMessage[],
  { send, context, inlineBytes, files, tokensPerMinute = Infinity, ...options }: PrepareOptions,
): Promise<History> {
  const { parameters, maxTokens } = send
  const contextWindow = Math.min(options.model.contextWindow, tokensPerMinute)
  const model = { ...options.model, contextWindow }
  const history = new HistoryBuilder({
    fresh: turns,
    instructions: context.instructions,
    model,
    outputTokens: Math.min(maxTokens, model.maxOutputTokens),
    parameters,
    inlineBytes,
    takesFiles: files !== undefined,
  })
  if (context.last !== undefined) {
    for await (const message of context.messages()) {
      history.add(message)
      if (!history.wantsMore) break
    }
  }
  return history.build()
}

async function requestOf(
  messages: readonly string[],
  { model, ref, send: { parameters } }: Pick<PrepareOptions, 'model' | 'ref' | 'send'>,
): Promise<ChatRequest> {
  const body = composeBody({ model: model.id, messages, parameters })
  await parseAhead(body, { ref })
  const request = parseChatRequest(body, chatRow, () => model)
  if (!request) throw new GatewayError('model_not_found', { param: 'model' })
  if (request.refusal) throw request.refusal
  return { ...request, wantsUsage: true }
}

type Compose = (part: (file: FileReference) => BackendPart) => Promise<ChatRequest>

interface ToFill extends Attached {
  readonly compose: Compose
  readonly promptTokens: number
}

function withFileTokens(request: ChatRequest, files: readonly FileReference[]): ChatRequest {
  const tokens = files.reduce((sum, file) => sum + tokensOf(file, request.model), 0)
  return { ...request, promptTokens: request.promptTokens + tokens }
}

function fillingOf(
  files: readonly FileReference[],
  { turns, images, compose, promptTokens }: ToFill,
): Filling | undefined {
  if (files.length === 0 && images.length === 0) return undefined
  const said = new Set(turns.flatMap(({ content }) => filesOf(content)).map(idOf))
  const here = new Set(images.map(({ id }) => id))
  const wanted = files.filter((file) => !here.has(idOf(file)))
  return {
    images,
    fresh: wanted.filter((file) => said.has(idOf(file))),
    older: wanted.filter((file) => !said.has(idOf(file))),
    bytes: wanted.reduce((sum, file) => sum + inlineBytes(file), 0),
    async request(contents) {
      const request = await compose((file) => {
        const content = contents.get(idOf(file))
        return content ? partOf(file, content) : standIn(file)
      })
      const sent = files.filter((file) => contents.has(idOf(file)))
      // The tokenizer sees only the base64 of a document, and counts too many tokens for it.
      const over = sent.reduce((sum, file) => sum + overcounted(file, request.model), 0)
      const countPrompt = async (effort?: Effort) =>
        Math.max(1, (await request.countPrompt(effort)) - over)
      return { ...request, promptTokens, countPrompt }
    },
  }
}

const idOf = ({ file_id }: FileReference): string => file_id

interface RowOptions extends Pick<PrepareOptions, 'context' | 'model' | 'hold'> {
  readonly guessed: number
}

function rowsOf(
  turns: readonly NewMessage[],
  { context, model, hold, guessed }: RowOptions,
): readonly StoredMessage[] {
  const created_at = Math.floor(Date.now() / 1000)
  let last = context.last
  const nextId = () => {
    const id = newId('msg')
    // Another gateway's clock may have been ahead.
    last = last !== undefined && id <= last ? idAfter(last) : id
    return last
  }
  const nothing = { finish_reason: null, usage: null, cost: null, error: null, created_at }
  const rows: StoredMessage[] = turns.map((turn) => ({
    ...turn,
    ...nothing,
    id: nextId(),
    status: 'completed',
    model: null,
    completed_at: created_at,
  }))
  rows.push({
    ...nothing,
    id: nextId(),
    role: 'assistant',
    content: null,
    status: 'in_progress',
    model: model.id,
    completed_at: null,
    hold,
    guessed,
  })
  return rows
}

export interface Context {
  readonly model: string | undefined
  readonly instructions: string | null
  /** The greatest message id that the session has had. */
  readonly last: string | undefined
  /** Id of the message that is being generated. */
  readonly active: string | undefined
  /** The version of this history: `begin` refuses a send when the history has changed since. */
  readonly seen: string
  /** Newest first, in chunks. The first chunk is already read, and may be empty; each other one is a flight. */
  messages(): AsyncGenerator<StoredMessage, void>
}

export interface ContextReading {
  readonly scripts: SessionScripts
  readonly waking: Waking
  /** What has to succeed before a session is woken, which costs much more than reading one. */
  readonly mayWake?: Promise<unknown> | undefined
}

/** Where the rows begin in the reply of recent.lua. */
const firstRow = 8
const chunkMessages = 256
const chunkBytes = 1024 * 1024
/** Small, because first chunks are read before a send has its turn: many may be in memory at a time. */
const firstChunkBytes = 64 * 1024

/**
 * Reads the settings and the newest messages, and older messages as long as the model has room for them: most sends need
 * one flight. Sends in this tick. Throws `session_not_found`.
 */
export async function readContext(
  { scripts, waking, mayWake }: ContextReading,
  ref: string,
  session: string,
): Promise<Context> {
  checkSession(session)
  const names = sessionKeys(ref, session)
  const read = async (before: string, bytes: number, takesOne: 0 | 1): Promise<Reply> => {
    const words = [before, `${chunkMessages}`, `${bytes}`, `${takesOne}`]
    const recent = () => unlessAsleep(scripts.run('recent', names, words))
    const reply = await waking.awake({ ref, session }, recent, mayWake)
    if (reply.word !== 'ok') throw new GatewayError('session_not_found')
    return reply
  }
  const first = await read('', firstChunkBytes, 0)
  return {
    model: textAt(first, 3) || undefined,
    instructions: textAt(first, 4) || null,
    last: textAt(first, 5) || undefined,
    active: textAt(first, 6) || undefined,
    seen: textAt(first, 7),
    async *messages() {
      let before = ''
      for (let reply = first; ;) {
        let oldest: string | undefined
        for (const row of reply.values.slice(firstRow)) {
          const message = parseStored(String(row))
          if (!message) continue
          oldest = message.id
          yield message
        }
        const isEmpty = reply.values.length === firstRow
        // The first chunk is empty if even its newest row is too large for it: the next call takes that row. If no row
        // of a chunk can be read, there is no id to go on from.
        if (reply.values[2] !== 1 || (oldest === undefined && !isEmpty)) return
        before = oldest ?? before
        reply = await read(before, chunkBytes, 1)
      }
    },
  }
}
