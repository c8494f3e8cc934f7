// Reads what a send needs of its session before the hold: the settings and the newest messages, and older messages as
// long as the model has room for them. Most sends need one flight.

import { GatewayError } from '../../errors.ts'
import { isId } from '../../ids.ts'
import { textAt } from '../../redis/scripts.ts'
import type { Reply } from '../../redis/scripts.ts'
import { sessionKeys } from '../library.ts'
import type { SessionScripts } from '../library.ts'
import { parseStored } from '../message.ts'
import type { StoredMessage } from '../message.ts'

export interface Context {
  readonly model: string | undefined
  readonly instructions: string | null
  /** The greatest message id that the session has had. */
  readonly last: string | undefined
  /** Id of the message that is being generated. */
  readonly active: string | undefined
  /** Newest first, in chunks. The first chunk is already read; each other one is a flight. */
  messages(): AsyncGenerator<StoredMessage, void>
}

const chunkMessages = 256
const chunkBytes = 1024 * 1024

/** Sends in this tick. Throws `session_not_found`. */
export async function readContext(
  scripts: SessionScripts,
  ref: string,
  session: string,
): Promise<Context> {
  if (!isId('sess', session)) throw new GatewayError('session_not_found')
  const names = sessionKeys(ref, session)
  const read = async (before: string): Promise<Reply> => {
    const reply = await scripts.run('recent', names, [before, `${chunkMessages}`, `${chunkBytes}`])
    if (reply.word !== 'ok') throw new GatewayError('session_not_found')
    return reply
  }
  const first = await read('')
  return {
    model: textAt(first, 3) || undefined,
    instructions: textAt(first, 4) || null,
    last: textAt(first, 5) || undefined,
    active: textAt(first, 6) || undefined,
    async *messages() {
      for (let reply = first; ;) {
        let oldest: string | undefined
        for (const row of reply.values.slice(7)) {
          const message = parseStored(String(row))
          if (!message) continue
          oldest = message.id
          yield message
        }
        if (reply.values[2] !== 1 || oldest === undefined) return
        reply = await read(oldest)
      }
    },
  }
}
