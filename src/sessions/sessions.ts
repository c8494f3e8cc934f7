// The sessions of accounts: create, read, list, change, delete. Nothing is cached, so a change by one gateway holds for
// the next request on every other gateway. Generation is in streams/.

import type { Redis } from 'ioredis'
import { asked } from '../redis/asked.ts'
import { GatewayError } from '../errors.ts'
import type { Claim, ClaimWords } from '../exchange.ts'
import { quotaWords } from '../accounts/plan.ts'
import type { Quota } from '../accounts/plan.ts'
import type { List, Page } from '../http/page.ts'
import { idAfter, isId, newId, secondsOf } from '../ids.ts'
import { keys } from '../redis/redis.ts'
import type { Room } from '../accounts/room.ts'
import { textAt, unavailable } from '../redis/scripts.ts'
import type { Reply } from '../redis/scripts.ts'
import { sessionKeys } from './library.ts'
import type { SessionScripts } from './library.ts'
import { readPage } from '../redis/listing.ts'
import type { Row } from '../redis/listing.ts'
import { removeSession } from './removal.ts'

/** As the API shows it (docs/api.md#session). */
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

/** In a list, sessions come without instructions: those of a hundred sessions may be megabytes. */
export type ListedSession = Omit<Session, 'instructions'>

/** An absent field stays as it is, null clears it. `metadata` is replaced as a whole. */
export interface SessionFields {
  readonly title?: string | null | undefined
  readonly model?: string | null | undefined
  readonly instructions?: string | null | undefined
  readonly metadata?: Readonly<Record<string, string>> | null | undefined
}

export interface Creating extends Quota {
  /** Of an Idempotency-Key: the script that creates the session also stores its id for this claim. */
  readonly claim?: Claim | undefined
}

const noQuota: Quota = { quotaBytes: Number.MAX_SAFE_INTEGER }

export interface SessionBook {
  /** Throws `storage_quota_exceeded`; `idempotency_in_progress` where another try has taken the claim over. */
  create(ref: string, fields: SessionFields, creating?: Creating): Promise<Session>
  /** Throws `session_not_found`, also for a malformed id; so does every other method that takes an id. */
  read(ref: string, id: string): Promise<Session>
  /** An id whose row has expired is skipped. */
  list(ref: string, page: Page): Promise<List<ListedSession>>
  /** Throws `storage_quota_exceeded`. */
  patch(ref: string, id: string, fields: SessionFields, quota?: Quota): Promise<Session>
  /** With all its messages; a running generation is cancelled. */
  remove(ref: string, id: string): Promise<void>
}

export interface SessionBookOptions {
  readonly redis: Redis
  readonly scripts: SessionScripts
  readonly room: Room
  /** How long a session is kept after its last change; 0 keeps it for ever. */
  readonly retentionMs: number
  /** How long the frames of a message are kept after its end. */
  readonly replayKeepMs: number
}

export function createSessionBook(options: SessionBookOptions): SessionBook {
  const { redis } = options
  return {
    create: (ref, fields, creating = noQuota) => create(options, ref, { fields, ...creating }),
    read: (ref, id) => asked(read(redis, ref, id)),
    list: (ref, page) => asked(list(options, ref, page)),
    patch: (ref, id, fields, quota = noQuota) => patch(options, ref, { id, fields, ...quota }),
    async remove(ref, id) {
      checkId(id)
      await removeSession(options, ref, id)
    },
  }
}

/** Makes a session of its hash; returns undefined when the hash is empty. */
export function sessionOf(row: Readonly<Record<string, string | undefined>>): Session | undefined {
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

const listedFields = [
  'id',
  'created_at',
  'updated_at',
  'title',
  'model',
  'metadata',
  'messages',
  'active',
] as const

/** In seconds. Sent with every change, so a session follows a new configuration from its next change on. */
export function retentionS({ retentionMs }: Pick<SessionBookOptions, 'retentionMs'>): string {
  return String(Math.ceil(retentionMs / 1000))
}

interface Change extends Quota {
  readonly id: string
  readonly fields: SessionFields
}

async function create(
  options: SessionBookOptions,
  ref: string,
  { fields, claim, ...quota }: Creating & Pick<Change, 'fields'>,
): Promise<Session> {
  const { room, scripts } = options
  let id = newId('sess')
  for (;;) {
    const second = String(secondsOf(id))
    const row = { id, created_at: second, updated_at: second, ...textsOf(fields) }
    const head = `${retentionS(options)} ${quotaWords(quota)}`
    const names = [keys.sessions(ref), keys.session(ref, id), keys.storage(ref), keys.account(ref)]
    const store = (own?: ClaimWords) => {
      const words = [head, own?.running ?? '', own?.kept ?? '', ...Object.entries(row).flat()]
      const all = own ? [...names, own.key] : names
      return room.within(ref, () => scripts.run('create', all, words))
    }
    const reply = await (claim ? claim.keep(id, store) : store())
    if (reply.word === 'ok') return found(sessionOf(row))
    if (reply.word === 'claim_lost') throw new GatewayError('idempotency_in_progress')
    if (reply.word === 'storage_quota_exceeded') throw new GatewayError(reply.word)
    // Another gateway's clock is ahead, or its creation overtook this one.
    id = idAfter(textAt(reply, 2))
  }
}

/** Fields as the hash has them: an empty text stands for null. */
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

/** Refuses a malformed id without asking Redis. */
function checkId(id: string): void {
  if (!isId('sess', id)) throw new GatewayError('session_not_found')
}

async function read(redis: Redis, ref: string, id: string): Promise<Session> {
  checkId(id)
  return found(sessionOf(await redis.hgetall(keys.session(ref, id))))
}

function list(options: SessionBookOptions, ref: string, page: Page): Promise<List<ListedSession>> {
  const { redis, room } = options
  const readOne = async (id: string): Promise<Row<ListedSession>> => {
    const texts = await redis.hmget(keys.session(ref, id), ...listedFields)
    const row = Object.fromEntries(listedFields.map((name, i) => [name, texts[i] ?? undefined]))
    const session = sessionOf(row)
    if (!session) return 'gone'
    const { instructions: _, ...value } = session
    return { value, bytes: 512 + (row.metadata?.length ?? 0) }
  }
  const rows = {
    key: keys.sessions(ref),
    read: (ids: readonly string[]) => Promise.all(ids.map(readOne)),
    forget: (ids: readonly string[]) => room.forgetExpired(ref, ids),
  }
  return readPage(redis, rows, page)
}

async function patch(
  options: SessionBookOptions,
  ref: string,
  { id, fields, ...quota }: Change,
): Promise<Session> {
  const { redis, room, scripts } = options
  const changes = Object.entries(textsOf(fields)).flat()
  if (changes.length === 0) return asked(read(redis, ref, id))
  checkId(id)
  const names = [...sessionKeys(ref, id), keys.storage(ref), keys.account(ref)]
  const words = [`${retentionS(options)} ${quotaWords(quota)}`, ...changes]
  const reply = await room.within(ref, () => scripts.run('patch', names, words))
  if (reply.word === 'storage_quota_exceeded') throw new GatewayError(reply.word)
  if (reply.word !== 'ok') throw new GatewayError('session_not_found')
  return found(sessionOf(rowIn(reply)))
}

/** Reads HGETALL's answer within the reply of a script: fields and values in turn. */
function rowIn({ values }: Reply): Record<string, string> {
  const pairs: unknown = values[2]
  if (!Array.isArray(pairs)) throw unavailable(new TypeError('No row in the reply'))
  const row: Record<string, string> = {}
  for (let at = 0; at < pairs.length; at += 2) row[String(pairs[at])] = String(pairs[at + 1])
  return row
}
