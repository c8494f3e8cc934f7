// Reads the stored messages of a session: one, or a page. The account is part of every Redis key, so a session of
// another account is never found.

import type { Redis } from '../redis/client.ts'
import { asked } from '../redis/asked.ts'
import { GatewayError } from '../errors.ts'
import { FairTurns } from '../sharing/fair-turns.ts'
import type { List, Page } from '../http/page.ts'
import { isId } from '../ids.ts'
import { keys } from '../redis/keys.ts'
import type { SessionScripts } from './library.ts'
import { readPage } from '../redis/listing.ts'
import type { Row } from '../redis/listing.ts'
import { parseStored, toPublic } from './message.ts'
import type { PublicMessage, StoredMessage } from './message.ts'
import type { MessagePlace } from './streams/stream-rows.ts'

type SessionPlace = Omit<MessagePlace, 'message'>

const readsAtOnce = 4

export interface MessageBookOptions {
  readonly redis: Redis
  readonly scripts: SessionScripts
}

export class MessageBook {
  readonly #options: MessageBookOptions
  /** A message may have megabytes, and an account may ask for it hundreds of times at once. */
  readonly #reads = new FairTurns(readsAtOnce)

  constructor(options: MessageBookOptions) {
    this.#options = options
  }

  /** Throws `session_not_found`. */
  list(place: SessionPlace, page: Page): Promise<List<PublicMessage>> {
    const { redis, scripts } = this.#options
    const { ref, session } = place
    const rows = {
      ref,
      key: keys.messageIds(ref, session),
      async read(ids: readonly string[], room: number) {
        const words = [`${room}`, ...ids]
        const { values } = await scripts.run('page', [keys.messages(ref, session)], words)
        return values.slice(2).map((text) => rowOf(String(text), session))
      },
    }
    return this.#inSession(place, () => readPage(redis, rows, page))
  }

  /** Throws `session_not_found` or `message_not_found`, whatever the ids are. */
  async read(place: MessagePlace): Promise<StoredMessage> {
    const { redis } = this.#options
    const read = () => this.#ofMessage(place, (key) => redis.hget(key, place.message))
    const message = parseStored(await this.#reads.run(place.ref, read))
    if (!message) throw new GatewayError('message_not_found')
    return message
  }

  /** Throws as `read` does, but does not load the message, which may have megabytes. */
  async check(place: MessagePlace): Promise<void> {
    const { redis } = this.#options
    const isThere = await this.#ofMessage(place, (key) => redis.hexists(key, place.message))
    if (!isThere) throw new GatewayError('message_not_found')
  }

  /** Does not ask for a malformed id. */
  #ofMessage<T>(place: MessagePlace, ask: (key: string) => Promise<T>): Promise<T | undefined> {
    const { ref, session, message } = place
    const key = keys.messages(ref, session)
    return this.#inSession(place, async () => (isId('msg', message) ? ask(key) : undefined))
  }

  async #inSession<T>({ ref, session }: SessionPlace, ask: () => Promise<T>): Promise<T> {
    if (!isId('sess', session)) throw new GatewayError('session_not_found')
    const isThere = this.#options.redis.exists(keys.session(ref, session))
    const [there, found] = await asked(Promise.all([isThere, ask()]))
    if (!there) throw new GatewayError('session_not_found')
    return found
  }
}

function rowOf(text: string, session: string): Row<PublicMessage> {
  if (text === '') return 'gone'
  const message = parseStored(text)
  return message ? { value: toPublic(message, session), bytes: text.length } : 'unreadable'
}
