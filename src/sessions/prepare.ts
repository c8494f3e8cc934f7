// From what a client sends to what is held, stored and asked: the model, the history that fits it, the request for its
// backend, and the rows of the new messages. Reads, and writes nothing.

import { endpoints } from '../chat/endpoints.ts'
import { parseChatRequest } from '../chat/request.ts'
import type { ChatRequest } from '../chat/request.ts'
import type { Model } from '../config/config.ts'
import { GatewayError } from '../errors.ts'
import { idAfter, newId } from '../ids.ts'
import type { Context } from './context.ts'
import { HistoryBuilder, composeBody } from './history.ts'
import type { NewMessage, StoredMessage } from './message.ts'
import { checkSend } from './turns.ts'
import type { Send } from './turns.ts'

export interface Prepared {
  readonly request: ChatRequest
  /** The answer's row in progress; its id is the message's. */
  readonly draft: StoredMessage
  /** The new turns with their ids, then the draft. */
  readonly stored: readonly StoredMessage[]
}

export interface PrepareOptions {
  readonly send: Send
  readonly context: Context
  readonly model: Model
  readonly hold: string
}

const chat = endpoints.find(({ endpoint }) => endpoint === 'chat')

/** Throws invalid_parameter, unknown_parameter, unsupported_attachment. */
export async function prepare({ send, context, model, hold }: PrepareOptions): Promise<Prepared> {
  checkSend(send, model)
  const { turns, parameters, maxTokens = Infinity } = send
  const history = new HistoryBuilder({
    fresh: turns,
    instructions: context.instructions,
    model,
    outputTokens: Math.min(maxTokens, model.maxOutputTokens),
    parameters,
  })
  if (context.last !== undefined) {
    for await (const message of context.messages()) {
      history.add(message)
      if (!history.wantsMore) break
    }
  }
  const { messages, promptTokens: guessed } = history.build()
  const body = composeBody({ model: model.id, messages, parameters })
  const request = chat && parseChatRequest(body, chat, () => model)
  if (!request) throw new GatewayError('model_not_found', { param: 'model' })
  const stored = rowsOf(turns, { context, model, hold, guessed })
  const draft = stored.at(-1)
  if (!draft) throw new TypeError('a send without rows')
  return { request: { ...request, wantsUsage: true }, draft, stored }
}

function rowsOf(
  turns: readonly NewMessage[],
  { context, model, hold, guessed }: Omit<PrepareOptions, 'send'> & { readonly guessed: number },
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
