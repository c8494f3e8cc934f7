// The sessions of accounts: made, found, listed, changed, deleted. Nothing is cached, so what one gateway changes holds for
// the next request on every other. What is generated into a session is not this file's.

import type { Redis } from 'ioredis'
import { asked } from '../asked.ts'
import { GatewayError } from '../errors.ts'
import type { Claim, KeptAnswer } from '../exchange.ts'
import type { List, Page } from '../http/page.ts'
import { idAfter, isId, newId, secondsOf } from '../ids.ts'
import { keys } from '../redis.ts'
import { textAt, unavailable } from '../scripts.ts'
import type { Reply } from '../scripts.ts'
import { sessionKeys } from './library.ts'
import type { SessionScripts } from './library.ts'
import { readPage } from '../listing.ts'
import type { Row } from '../listing.ts'
import { removeSession } from './removal.ts'

/** As the contract shows it. */
export interface Session {
  readonly id: string
  readonly object: 'chat.session'
  readonly created_at: number
  readonly updated_at: number
  readonly title: string | null
  readonly model: string | null
  readonly instructions: string | null
  readonly metadata: Readonly<Record<string, string>>
  readonly message_count: number
  readonly active_message_id: string | null
}

/** Absent stays as it is, null is nothing. `metadata` is replaced whole. */
export interface SessionFields {
  readonly title?: string | null | undefined
  readonly model?: string | null | undefined
  readonly instructions?: string | null | undefined
  readonly metadata?: Readonly<Record<string, string>> | null | undefined
}

/** A creation under an Idempotency-Key: its answer is kept in the step that creates. */
export interface Claimed {
  readonly claim: Claim
  answerTo(session: Session): KeptAnswer
}

export interface SessionBook {
  /** Throws `idempotency_in_progress` where another try has taken the claim over. */
  create(ref: string, fields: SessionFields, claimed?: Claimed): Promise<Session>
  /** Throws `session_not_found`, as all that take an id do, whatever the id is. */
  read(ref: string, id: string): Promise<Session>
  /** An id whose row has expired is skipped. */
  list(ref: string, page: Page): Promise<List<Session>>
  patch(ref: string, id: string, fields: SessionFields): Promise<Session>
  /** With all its messages; a running generation is cancelled. */
  remove(ref: string, id: string): Promise<void>
}

export interface SessionBookOptions {
  readonly redis: Redis
  readonly scripts: SessionScripts
  /** After the last change; 0 is for ever. */
  readonly retentionMs: number
  /** How long the frames of a message are kept after its end. */
  readonly replayKeepMs: number
}

export function createSessionBook(options: SessionBookOptions): SessionBook {
  const { redis } = options
  return {
    create: (ref, fields, claimed) => create(options, ref, { fields, claimed }),
    read: (ref, id) => asked(read(redis, ref, id)),
    list: (ref, page) => asked(list(redis, ref, page)),
    patch: (ref, id, fields) => patch(options, ref, { id, fields }),
    async remove(ref, id) {
      checkId(id)
      await removeSession(options, ref, id)
    },
  }
}

/** Of a session's hash; undefined where it has none. */
export function sessionOf(row: Readonly<Record<string, string>>): Session | undefined {
  const { id, created_at, updated_at, title, model, instructions, metadata, messages, active } = row
  if (id === undefined) return undefined
  return {
    id,
    object: 'chat.session',
    created_at: Number(created_at ?? 0),
    updated_at: Number(updated_at ?? 0),
    title: title || null,
    model: model || null,
    instructions: instructions || null,
    metadata: metadata ? JSON.parse(metadata) : {},
    message_count: Number(messages ?? 0),
    active_message_id: active || null,
  }
}

/** What a later configuration has is what counts: it is renewed at every change. */
export function retentionS({ retentionMs }: Pick<SessionBookOptions, 'retentionMs'>): string {
  return String(Math.ceil(retentionMs / 1000))
}

interface Creation {
  readonly fields: SessionFields
  readonly claimed: Claimed | undefined
}

async function create(
  options: SessionBookOptions,
  ref: string,
  { fields, claimed }: Creation,
): Promise<Session> {
  let id = newId('sess')
  for (;;) {
    const second = String(secondsOf(id))
    const row = { id, created_at: second, updated_at: second, ...textsOf(fields) }
    const session = found(sessionOf(row))
    const kept = claimed?.claim.keptAnswer(claimed.answerTo(session)) ?? ''
    const reply = await options.scripts.run(
      'create',
      [keys.sessions(ref), keys.session(ref, id), ...(claimed ? [claimed.claim.key] : [])],
      [retentionS(options), claimed?.claim.running ?? '', kept, ...Object.entries(row).flat()],
    )
    if (reply.word === 'ok') {
      if (claimed) claimed.claim.isKept = true
      return session
    }
    if (reply.word === 'claim_lost') throw claimLost()
    // Another gateway's clock is ahead, or its creation overtook this one.
    id = idAfter(textAt(reply, 2))
  }
}

function claimLost(): GatewayError {
  return new GatewayError('idempotency_in_progress', { retryAfterMs: 1000 })
}

/** As the hash has them: an empty text is nothing. */
function textsOf({ title, model, instructions, metadata }: SessionFields): Record<string, string> {
  return {
    ...(title !== undefined && { title: title ?? '' }),
    ...(model !== undefined && { model: model ?? '' }),
    ...(instructions !== undefined && { instructions: instructions ?? '' }),
    ...(metadata !== undefined && { metadata: JSON.stringify(metadata ?? {}) }),
  }
}

function found(session: Session | undefined): Session {
  if (!session) throw new GatewayError('session_not_found')
  return session
}

/** What can be no id is nobody's, and Redis is not asked for it. */
function checkId(id: string): void {
  if (!isId('sess', id)) throw new GatewayError('session_not_found')
}

async function read(redis: Redis, ref: string, id: string): Promise<Session> {
  checkId(id)
  return found(sessionOf(await redis.hgetall(keys.session(ref, id))))
}

function list(redis: Redis, ref: string, page: Page): Promise<List<Session>> {
  const readOne = async (id: string): Promise<Row<Session>> => {
    const value = sessionOf(await redis.hgetall(keys.session(ref, id)))
    // What else is in a row is bounded, and small.
    return value ? { value, bytes: 1024 + (value.instructions?.length ?? 0) } : 'gone'
  }
  const rows = {
    key: keys.sessions(ref),
    read: (ids: readonly string[]) => Promise.all(ids.map(readOne)),
  }
  return readPage(redis, rows, page)
}

interface Change {
  readonly id: string
  readonly fields: SessionFields
}

async function patch(
  options: SessionBookOptions,
  ref: string,
  { id, fields }: Change,
): Promise<Session> {
  const changes = Object.entries(textsOf(fields)).flat()
  if (changes.length === 0) return asked(read(options.redis, ref, id))
  checkId(id)
  const reply = await options.scripts.run('patch', sessionKeys(ref, id), [
    retentionS(options),
    ...changes,
  ])
  if (reply.word !== 'ok') throw new GatewayError('session_not_found')
  return found(sessionOf(rowIn(reply)))
}

/** HGETALL's answer inside a script's: fields and values in turn. */
function rowIn({ values }: Reply): Record<string, string> {
  const pairs: unknown = values[2]
  if (!Array.isArray(pairs)) throw unavailable(new TypeError('No row in the reply'))
  const row: Record<string, string> = {}
  for (let at = 0; at < pairs.length; at += 2) row[String(pairs[at])] = String(pairs[at + 1])
  return row
}
