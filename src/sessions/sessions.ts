// The sessions of accounts: create, read, list, change, delete. Nothing is cached, so a change by one gateway holds for
// the next request on every other gateway. Generation is in streams/.

import type { Redis } from '../redis/client.ts'
import { asked } from '../redis/asked.ts'
import { GatewayError } from '../errors.ts'
import type { Claim, ClaimWords } from '../redis/claims.ts'
import { quotaWords } from '../accounts/plan.ts'
import type { Quota } from '../accounts/plan.ts'
import type { List, Page } from '../http/page.ts'
import { idAfter, newId, secondsOf } from '../ids.ts'
import { keys } from '../redis/keys.ts'
import type { Room } from '../accounts/room.ts'
import { textAt, unavailable } from '../redis/scripts.ts'
import type { Reply } from '../redis/scripts.ts'
import { objectKeptMs } from './asleep/object.ts'
import { checkSession, sessionKeys, streamKeys } from './library.ts'
import type { SessionScripts } from './library.ts'
import { readPage } from '../redis/listing.ts'
import type { Row } from '../redis/listing.ts'

/** As the API shows it (docs/api.md#session). */
export type Session = NonNullable<ReturnType<typeof sessionOf>>

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

export interface SessionBookOptions {
  readonly redis: Redis
  readonly scripts: SessionScripts
  readonly room: Room
  /** How long a session is kept after its last change; 0 keeps it for ever. */
  readonly retentionMs: number
  /** How long the frames of a message are kept after its end. */
  readonly replayKeepMs: number
}

/** Makes a session of its hash; returns undefined when the hash is empty. */
export function sessionOf(row: Readonly<Record<string, string | undefined>>) {
  const { id, created_at, updated_at, title, model, instructions, metadata, messages, active } = row
  if (id === undefined) return undefined
  const data: Readonly<Record<string, string>> = metadata ? JSON.parse(metadata) : {}
  return {
    id,
    object: 'chat.session' as const,
    created_at: Number(created_at ?? 0),
    updated_at: Number(updated_at ?? 0),
    title: title || null,
    model: model || null,
    instructions: instructions || null,
    metadata: data,
    message_count: Number(messages ?? 0),
    active_message_id: active || null,
  }
}

const listed = 'id created_at updated_at title model metadata messages active'.split(' ')

/** In seconds. Sent with every change, so a session follows a new configuration from its next change on. */
export function retentionS({ retentionMs }: Pick<SessionBookOptions, 'retentionMs'>): number {
  return Math.ceil(retentionMs / 1000)
}

/** Every method that takes an id throws `session_not_found`, also for a malformed id. */
export class SessionBook {
  readonly #options: SessionBookOptions

  constructor(options: SessionBookOptions) {
    this.#options = options
  }

  /** Throws `storage_quota_exceeded`; `idempotency_in_progress` where another try has taken the claim over. */
  async create(
    ref: string,
    fields: SessionFields,
    { claim, ...quota }: Creating = noQuota,
  ): Promise<Session> {
    const { room, scripts } = this.#options
    let id = newId('sess')
    for (;;) {
      const second = String(secondsOf(id))
      const row = { id, created_at: second, updated_at: second, ...textsOf(fields) }
      const head = `${retentionS(this.#options)} ${quotaWords(quota)}`
      const own = [keys.sessions(ref), keys.session(ref, id), keys.storage(ref), keys.account(ref)]
      const store = (claimed?: ClaimWords) => {
        const { running = '', kept = '' } = claimed ?? {}
        const names = claimed ? [...own, claimed.key] : own
        const words = [head, running, kept, ...Object.entries(row).flat()]
        return room.within(ref, () => scripts.run('create', names, words))
      }
      const reply = await (claim ? claim.keep(id, store) : store())
      if (reply.word === 'ok') return found(sessionOf(row))
      if (reply.word === 'claim_lost') throw new GatewayError('idempotency_in_progress')
      if (reply.word === 'storage_quota_exceeded') throw new GatewayError(reply.word)
      // Another gateway's clock is ahead, or its creation overtook this one.
      id = idAfter(textAt(reply, 2))
    }
  }

  async read(ref: string, id: string): Promise<Session> {
    checkSession(id)
    return found(sessionOf(await asked(this.#options.redis.hgetall(keys.session(ref, id)))))
  }

  /** An id whose row has expired is skipped. */
  list(ref: string, page: Page): Promise<List<ListedSession>> {
    const { redis, room } = this.#options
    const readOne = async (id: string): Promise<Row<ListedSession>> => {
      const texts = await redis.hmget(keys.session(ref, id), ...listed)
      const row = Object.fromEntries(listed.map((name, i) => [name, texts[i] ?? undefined]))
      const session = sessionOf(row)
      if (!session) return 'gone'
      const { instructions: _, ...value } = session
      return { value, bytes: 512 + (row.metadata?.length ?? 0) }
    }
    const rows = {
      ref,
      key: keys.sessions(ref),
      read: (ids: readonly string[]) => Promise.all(ids.map(readOne)),
      forget: (ids: readonly string[]) => room.forgetExpired(ref, ids),
    }
    return asked(readPage(redis, rows, page))
  }

  /** Throws `storage_quota_exceeded`. */
  async patch(ref: string, id: string, fields: SessionFields, quota = noQuota): Promise<Session> {
    const { room, scripts } = this.#options
    const changes = Object.entries(textsOf(fields)).flat()
    if (changes.length === 0) return this.read(ref, id)
    checkSession(id)
    const names = [...sessionKeys(ref, id), keys.storage(ref), keys.account(ref)]
    const words = [`${retentionS(this.#options)} ${quotaWords(quota)}`, ...changes]
    const reply = await room.within(ref, () => scripts.run('patch', names, words))
    if (reply.word === 'storage_quota_exceeded') throw new GatewayError(reply.word)
    if (reply.word !== 'ok') throw new GatewayError('session_not_found')
    return found(sessionOf(rowIn(reply)))
  }

  /**
   * With everything that belongs to it. A running generation is told to stop; its stream is kept as long as a cancelled
   * one. The object of a session that sleeps is removed later (asleep/unnamed.ts). The caller must name all keys of a
   * script, so the ids in them are read first, and again when they have changed.
   */
  async remove(ref: string, id: string): Promise<void> {
    checkSession(id)
    const { redis, scripts, replayKeepMs } = this.#options
    const rows = [
      keys.sessions(ref),
      ...sessionKeys(ref, id),
      keys.storage(ref),
      keys.sessionObjects(ref),
    ]
    const kept = `${Math.ceil(replayKeepMs / 1000)} ${objectKeptMs}`
    for (;;) {
      const looks = [
        redis.hmget(keys.session(ref, id), 'last', 'active'),
        redis.zrange(keys.messageIds(ref, id), '0', '-1'),
      ] as const
      const [[last, active], ids] = await asked(Promise.all(looks))
      const names = active ? [...rows, ...streamKeys(ref, active)] : rows
      const words = [id, last ?? '', active ?? '', kept]
      const { word } = await scripts.run('remove', names, words)
      if (word === 'session_not_found') throw new GatewayError(word)
      if (word === 'again') continue
      const ended = ids.filter((message) => message !== active)
      return forget(redis, ref, ended)
    }
  }
}

const forgottenAtOnce = 500

/** The streams of ended messages expire anyway, so a failure here is ignored. */
async function forget(redis: Redis, ref: string, ended: readonly string[]): Promise<void> {
  for (let at = 0; at < ended.length; at += forgottenAtOnce) {
    const some = ended.slice(at, at + forgottenAtOnce)
    const streams = some.flatMap((message) => streamKeys(ref, message))
    await redis.unlink(...streams).catch(() => undefined)
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

/** Reads HGETALL's answer within the reply of a script: fields and values in turn. */
function rowIn({ values }: Reply): Record<string, string> {
  const pairs: unknown = values[2]
  if (!Array.isArray(pairs)) throw unavailable(new TypeError('No row in the reply'))
  const row: Record<string, string> = {}
  for (let at = 0; at < pairs.length; at += 2) row[String(pairs[at])] = String(pairs[at + 1])
  return row
}
