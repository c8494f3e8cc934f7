// Chat sessions: conversations that the gateway keeps.

import { listAt } from './list.ts'
import type { List, ListParams } from './list.ts'
import { pathTo } from './transport.ts'
import type { CallOptions, Transport } from './transport.ts'

/** A list leaves out the instructions of its sessions: `retrieve` reads them. */
export interface ListedSession {
  readonly id: string
  readonly object: 'chat.session'
  /** In Unix seconds, like all times here. */
  readonly created_at: number
  readonly updated_at: number
  readonly title: string | null
  readonly model: string | null
  readonly metadata: Readonly<Record<string, string>>
  readonly message_count: number
  /** The answer that is being generated: resume or cancel it by this id. */
  readonly active_message_id: string | null
  readonly [name: string]: unknown
}

export interface Session extends ListedSession {
  readonly instructions: string | null
}

export interface SessionParams {
  /** At most 200 characters. In an update, null clears it. */
  readonly title?: string | null | undefined
  /** By default the gateway's first model that can chat. */
  readonly model?: string | null | undefined
  /** Sent to the model before everything else. */
  readonly instructions?: string | null | undefined
  /** At most 16 pairs, names of 64 and values of 512 characters; an update replaces all of them. */
  readonly metadata?: Readonly<Record<string, string>> | undefined
}

export class Sessions {
  readonly #transport: Transport

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  create(params: SessionParams = {}, options?: CallOptions): Promise<Session> {
    return this.#transport.json({ method: 'POST', path: toSession(), json: params }, options)
  }

  async retrieve(id: string, options?: CallOptions): Promise<Session> {
    return await this.#transport.json({ method: 'GET', path: toSession(id) }, options)
  }

  /** Changes the fields that are given. */
  async update(id: string, params: SessionParams, options?: CallOptions): Promise<Session> {
    const call = { method: 'PATCH', path: toSession(id), json: params } as const
    return await this.#transport.json(call, options)
  }

  /** Also deletes its messages and files, and cancels an answer that is being generated. */
  async delete(id: string, options?: CallOptions): Promise<void> {
    await this.#transport.done({ method: 'DELETE', path: toSession(id) }, options)
  }

  /** Newest first by default. */
  list(params: ListParams = {}, options?: CallOptions): List<ListedSession> {
    return listAt(this.#transport, toSession(), { query: params, options })
  }
}

/** @internal */
export function toSession(...more: readonly string[]): string {
  return pathTo('api', 'chat', 'sessions', ...more)
}
