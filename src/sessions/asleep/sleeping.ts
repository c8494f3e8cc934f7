// Puts one session to sleep: its messages go into an object of the store, and leave Redis; all else stays there. The
// account's record of the object comes before the object, the session's name for it after it. So whatever is cut in
// between, the object is found (rounds.ts), and the messages are in Redis or in an object that is whole.

import { asked } from '../../redis/asked.ts'
import type { Redis } from '../../redis/client.ts'
import { keys } from '../../redis/keys.ts'
import type { ObjectStore } from '../../store/store.ts'
import { listedIn, sessionKeys } from '../library.ts'
import type { SessionPlace, SessionScripts } from '../library.ts'
import { newObject, objectKeptMs, pack, pathOf } from './object.ts'
import type { StoredRow } from './object.ts'

export interface SleepingOptions {
  readonly redis: Redis
  readonly scripts: SessionScripts
  readonly store: Pick<ObjectStore, 'put' | 'get' | 'remove'>
}

/** Fields of which at least one changes with whatever changes the messages, or shows that somebody uses them. */
const watched = ['last', 'ends', 'amended', 'messages', 'bytes', 'updated_at', 'woken'] as const

const pageRows = 500
const pageBytes = 1024 * 1024

/** False if the session was used within `restMs`, or is used or deleted meanwhile: then it stays as it is. Throws `storage_unavailable`. */
export async function putToSleep(
  { redis, scripts, store }: SleepingOptions,
  place: SessionPlace,
  restMs = 0,
): Promise<boolean> {
  const { ref, session } = place
  const looks = [
    redis.hmget(keys.session(ref, session), ...watched),
    redis.zcard(keys.messageIds(ref, session)),
    redis.hlen(keys.messages(ref, session)),
    redis.time(),
  ] as const
  const [seen, ids, texts, [seconds, micros]] = await asked(Promise.all(looks))
  // Not as a gateway writes them: sleep.lua would refuse it in every round.
  if (ids !== texts) return false
  // It has lost them: there is nothing to wake it with.
  if (ids === 0) return false
  const [updatedAt, woken] = seen.slice(-2)
  const restsSince = Math.max(Number(updatedAt) * 1000, Number(woken))
  const nowMs = Number(seconds) * 1000 + Math.floor(Number(micros) / 1000)
  if (nowMs - restsSince < restMs) return false
  const object = newObject(session)
  await asked(redis.sadd(keys.sleepers, ref))
  await asked(redis.zadd(keys.sessionObjects(ref), nowMs + objectKeptMs, object))
  const rows = { count: 0 }
  const bytes = await pack(object, rowsOf(scripts, place, rows))
  const name = pathOf(ref, object)
  await store.put(name, bytes, { leavesReserve: true })
  const kept = await store.get(name)
  if (!kept.equals(bytes)) throw new Error(`The store did not keep ${name} as it was written`)
  const names = [...sessionKeys(ref, session), keys.sessionObjects(ref)]
  const fields = watched.flatMap((field, at) => [field, seen[at] ?? ''])
  const { word } = await scripts.run('sleep', names, [`${object} ${rows.count}`, ...fields])
  if (word === 'ok') return true
  await store.remove(name)
  await asked(redis.zrem(keys.sessionObjects(ref), object))
  return false
}

/** All messages, oldest first, in pages. Ends early when the session is deleted. */
async function* rowsOf(
  scripts: SessionScripts,
  { ref, session }: SessionPlace,
  rows: { count: number },
): AsyncGenerator<StoredRow> {
  for (let cursor = ''; ;) {
    const words = [`1 ${pageRows} ${pageBytes}`, cursor]
    const reply = await scripts.run('list', sessionKeys(ref, session), words)
    if (reply.word !== 'ok') return
    const page = listedIn(reply)
    if (page.rows.length === 0) return
    for (const [at, row] of page.rows.entries()) {
      cursor = page.ids[at] ?? ''
      rows.count++
      yield [cursor, row]
    }
  }
}
