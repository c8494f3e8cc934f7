// What a sweeper must look at later, and how it finds the account: an account's `due` says what and when,
// `due-accounts` says which accounts. `due-accounts` is on another slot of a Cluster, so no script writes both: an
// account is announced before anything is due.

import { setTimeout as wait } from 'node:timers/promises'
import type { Redis } from '../redis/client.ts'
import { asked } from '../redis/asked.ts'
import { keys } from '../redis/keys.ts'
import { isUnclear, numberAt, unavailable } from '../redis/scripts.ts'
import type { Reply, ScriptLink } from '../redis/scripts.ts'

const minuteMs = 60_000

/** After an upload was cut, its object is looked for once more: the store may have completed it all the same. */
export const lookAgainAfterMs = 3_600_000

export interface Announcement {
  readonly ref: string
  /** Minutes since 1970. */
  readonly minute: number
}

export function announce(redis: Redis, { ref, minute }: Announcement): Promise<number> {
  return asked(redis.zadd(keys.dueAccounts, minute * minuteMs, `${minute}:${ref}`))
}

export function minuteOf(ms: number): number {
  return Math.floor(ms / minuteMs)
}

/** Reads a member of `due-accounts`; returns undefined when the member is none of ours. */
export function parseAnnouncement(member: string): Announcement | undefined {
  const [, minute, ref] = /^(\d{1,12}):([0-9A-Za-z]{1,64})$/.exec(member) ?? []
  return minute && ref ? { minute: Number(minute), ref } : undefined
}

export type DueKind = 'upload' | 'abandoned' | 'expiry' | 'object' | 'session'

export interface Due {
  readonly kind: string
  readonly id: string
}

export function dueMember(kind: DueKind, id: string, tries?: number): string {
  return tries === undefined ? `${kind} ${id}` : `${kind} ${id} ${tries}`
}

export function parseDue(member: string): Due {
  const [kind = '', id = ''] = member.split(' ')
  return { kind, id }
}

const mostAnnouncements = 5

export interface Announcing {
  readonly ref: string
  /** When something will be due, by this machine's clock; the script corrects the minute by the clock of Redis. */
  readonly dueMs: number
  /** Sends a script in this tick that may answer `announce`. */
  run(minute: string): Promise<Reply>
}

/** Accounts whose last announcement is remembered. */
const mostRemembered = 10_000

/** By client: the minute of the last announcement of an account that Redis has surely got. */
const remembered = new WeakMap<Redis, Map<string, number>>()

/** From now on, an announcement is not repeated while the scripts find its minute open. A new connection may reach a Redis that has lost it. */
export function rememberAnnouncements({ client, onReady }: RememberedLink): void {
  const forget = () => void remembered.set(client, new Map())
  forget()
  onReady(forget)
}

type RememberedLink = Pick<ScriptLink, 'client' | 'onReady'>

/**
 * Announces and runs the script in one round trip: Redis runs commands in the order in which they are sent. Tries again
 * with a later minute when the script answers `announce`.
 */
export async function announced(redis: Redis, { ref, dueMs, run }: Announcing): Promise<Reply> {
  // If Redis is lost meanwhile, these are forgotten, and so is what is noted here.
  const known = remembered.get(redis)
  let minute = minuteOf(dueMs)
  const earlier = known?.get(ref) ?? Infinity
  let isAnnounced = earlier <= minute + 1
  if (isAnnounced) minute = earlier
  for (let tries = 0; tries < mostAnnouncements; tries++) {
    const announcing = isAnnounced ? undefined : announce(redis, { ref, minute })
    const [, reply] = await Promise.all([announcing, run(`${minute}`)])
    if (reply.word !== 'announce') {
      if (known) remember(known, ref, minute)
      return reply
    }
    minute = numberAt(reply, 2)
    isAnnounced = false
  }
  throw unavailable(new Error('Announced minutes are closed again and again'))
}

function remember(known: Map<string, number>, ref: string, minute: number): void {
  known.delete(ref)
  known.set(ref, minute)
  if (known.size > mostRemembered) known.delete(known.keys().next().value ?? '')
}

const repetitions = 2
const endingMs = 20
const reconnectMs = 2000

/**
 * Asks again when no reply came, as soon as Redis is back: only for scripts that may run twice. `isRepeated`: an
 * earlier try may have run.
 */
export async function persistently<T>(
  redis: Redis,
  ask: (isRepeated: boolean) => Promise<T>,
): Promise<T> {
  for (let repeated = 0; ; repeated++) {
    try {
      return await ask(repeated > 0)
    } catch (error) {
      if (repeated === repetitions || !isUnclear(error)) throw error
      await ready(redis)
    }
  }
}

/** Waits until the connection is ready, for `reconnectMs` at most. */
async function ready(redis: Redis): Promise<void> {
  // For a moment after its end a connection still counts as ready.
  await wait(endingMs)
  if (redis.status === 'ready') return
  const coming = comings.get(redis) ?? nextReady(redis)
  comings.set(redis, coming)
  await coming
}

/** One listener for each connection, however many callers wait. */
const comings = new WeakMap<Redis, Promise<void>>()

function nextReady(redis: Redis): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      redis.off('ready', done)
      comings.delete(redis)
      resolve()
    }
    const timer = setTimeout(done, reconnectMs)
    redis.on('ready', done)
  })
}
