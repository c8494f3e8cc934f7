// Reads the stored messages of a session: one, or a page. The account is part of every Redis key, so a session of
// another account is never found.

import type { Redis } from 'ioredis'
import { asked } from '../redis/asked.ts'
import { GatewayError } from '../errors.ts'
import { FairTurns } from '../sharing/fair-turns.ts'
import type { List, Page } from '../http/page.ts'
import { isId } from '../ids.ts'
import { keys } from '../redis/redis.ts'
import type { SessionScripts } from './library.ts'
import { readPage } from '../redis/listing.ts'
import type { Row } from '../redis/listing.ts'
import { parseStored, toPublic } from './message.ts'
import type { PublicMessage, StoredMessage } from './message.ts'
import type { MessagePlace } from './streams/stream-rows.ts'

type SessionPlace = Omit<MessagePlace, 'message'>

export interface MessageBook {
  /** Throws `session_not_found`. */
  list(place: SessionPlace, page: Page): Promise<List<PublicMessage>>
  /** Throws `session_not_found` or `message_not_found`, whatever the ids are. */
  read(place: MessagePlace): Promise<StoredMessage>
  /** Throws as `read` does, but does not load the message, which may have megabytes. */
  check(place: MessagePlace): Promise<void>
}

const listsAtOnce = 4

export interface MessageBookOptions {
  readonly redis: Redis
  readonly scripts: SessionScripts
}

export function createMessageBook(options: MessageBookOptions): MessageBook {
  const { redis } = options
  // Each list may read and parse a megabyte.
  const lists = new FairTurns(listsAtOnce)
  return {
    list: (place, page) => lists.run(place.ref, () => asked(list(options, place, page))),
    read: (place) => asked(read(redis, place)),
    check: (place) => asked(check(redis, place)),
  }
}

async function list(
  { redis, scripts }: MessageBookOptions,
  { ref, session }: SessionPlace,
  page: Page,
): Promise<List<PublicMessage>> {
  if (!isId('sess', session)) throw new GatewayError('session_not_found')
  const rows = {
    key: keys.messageIds(ref, session),
    async read(ids: readonly string[], room: number) {
      const { values } = await scripts.run(
        'page',
        [keys.messages(ref, session)],
        [`${room}`, ...ids],
      )
      return values.slice(2).map((text) => rowOf(String(text), session))
    },
  }
  const [isThere, found] = await Promise.all([
    redis.exists(keys.session(ref, session)),
    readPage(redis, rows, page),
  ])
  if (!isThere) throw new GatewayError('session_not_found')
  return found
}

function rowOf(text: string, session: string): Row<PublicMessage> {
  if (text === '') return 'gone'
  const message = parseStored(text)
  return message ? { value: toPublic(message, session), bytes: text.length } : 'unreadable'
}

async function read(redis: Redis, place: MessagePlace): Promise<StoredMessage> {
  const text = await inSession(redis, place, (key) => redis.hget(key, place.message))
  const message = parseStored(text ?? null)
  if (!message) throw new GatewayError('message_not_found')
  return message
}

async function check(redis: Redis, place: MessagePlace): Promise<void> {
  const isThere = await inSession(redis, place, (key) => redis.hexists(key, place.message))
  if (!isThere) throw new GatewayError('message_not_found')
}

/** Returns what `ask` finds among the messages; undefined when `message` is a malformed id. */
async function inSession<T>(
  redis: Redis,
  { ref, session, message }: MessagePlace,
  ask: (key: string) => Promise<T>,
): Promise<T | undefined> {
  if (!isId('sess', session)) throw new GatewayError('session_not_found')
  const [isThere, found] = await Promise.all([
    redis.exists(keys.session(ref, session)),
    isId('msg', message) ? ask(keys.messages(ref, session)) : undefined,
  ])
  if (!isThere) throw new GatewayError('session_not_found')
  return found
}
