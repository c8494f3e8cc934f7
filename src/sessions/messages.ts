// Reads the stored messages of a session: one, or a page. The account is part of every Redis key, so a session of
// another account is never found. A session that sleeps is woken.

import type { Redis } from '../redis/client.ts'
import { asked } from '../redis/asked.ts'
import { GatewayError } from '../errors.ts'
import { FairTurns } from '../sharing/fair-turns.ts'
import type { List, Page } from '../http/page.ts'
import { isId } from '../ids.ts'
import { keys } from '../redis/keys.ts'
import { unlessAsleep } from './asleep/waking.ts'
import type { Waking } from './asleep/waking.ts'
import { checkSession, listedIn, sessionKeys } from './library.ts'
import type { SessionPlace, SessionScripts } from './library.ts'
import { readFlights } from '../redis/listing.ts'
import type { Members, Row } from '../redis/listing.ts'
import { numberAt, textAt } from '../redis/scripts.ts'
import type { Reply } from '../redis/scripts.ts'
import { parseStored, toPublic } from './message.ts'
import type { PublicMessage, StoredMessage } from './message.ts'
import type { MessagePlace } from './streams/stream-rows.ts'

const readsAtOnce = 4

export interface MessageBookOptions {
  readonly redis: Redis
  readonly scripts: SessionScripts
  readonly waking: Waking
}

export class MessageBook {
  readonly #options: MessageBookOptions
  /** A message may have megabytes, and an account may ask for it hundreds of times at once. */
  readonly #reads = new FairTurns(readsAtOnce)

  constructor(options: MessageBookOptions) {
    this.#options = options
  }

  /** Throws `session_not_found`. */
  async list({ ref, session }: SessionPlace, page: Page): Promise<List<PublicMessage>> {
    checkSession(session)
    const { redis, scripts, waking } = this.#options
    const names = sessionKeys(ref, session)
    const fly = async ({ cursor = '', isUpwards, count }: Members, room: number) => {
      const words = [`${isUpwards ? 1 : 0} ${count} ${room}`, cursor]
      const reply = await unlessAsleep(scripts.run('list', names, words))
      if (reply.word !== 'ok') throw new GatewayError(reply.word)
      const { ids, rows } = listedIn(reply)
      return { ids, rows: rows.map((text) => rowOf(text, session)) }
    }
    const forget = (gone: readonly string[]) =>
      asked(redis.zrem(keys.messageIds(ref, session), ...gone))
    return waking.awake({ ref, session }, () => readFlights({ ref, fly, forget }, page))
  }

  /** Throws `session_not_found` or `message_not_found`, whatever the ids are. */
  async read(place: MessagePlace): Promise<StoredMessage> {
    const reply = await this.#find(place, true)
    const message = parseStored(textAt(reply, 3))
    if (!message) throw new GatewayError('message_not_found')
    return message
  }

  /** Throws as `read` does, but does not load the message, which may have megabytes. */
  async check(place: MessagePlace): Promise<void> {
    const reply = await this.#find(place, false)
    if (numberAt(reply, 2) === 0) throw new GatewayError('message_not_found')
  }

  async #find({ ref, session, message }: MessagePlace, takesRow: boolean): Promise<Reply> {
    checkSession(session)
    const names = [keys.session(ref, session), keys.messages(ref, session)]
    // A malformed id may have kilobytes.
    const words = [isId('msg', message) ? message : '', takesRow ? '1' : '0']
    const { scripts, waking } = this.#options
    const find = () => unlessAsleep(scripts.run('row', names, words))
    const inTurn = takesRow ? () => this.#reads.run(ref, find) : find
    const reply = await waking.awake({ ref, session }, inTurn)
    if (reply.word !== 'ok') throw new GatewayError(reply.word)
    return reply
  }
}

function rowOf(text: string, session: string): Row<PublicMessage> {
  if (text === '') return 'gone'
  const message = parseStored(text)
  return message ? { value: toPublic(message, session), bytes: text.length } : 'unreadable'
}
