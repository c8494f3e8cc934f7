// Deletes a session with everything that belongs to it. The caller must name all keys of a script, so the ids in these
// keys are read first; when the ids have changed meanwhile, the script does nothing, and the ids are read again.

import type { Redis } from 'ioredis'
import { asked } from '../redis/asked.ts'
import { GatewayError } from '../errors.ts'
import { keys } from '../redis/redis.ts'
import { sessionKeys, streamKeys } from './library.ts'
import type { SessionScripts } from './library.ts'

interface RemovalOptions {
  readonly redis: Redis
  readonly scripts: SessionScripts
  /** How long the frames of a message are kept after its end. */
  readonly replayKeepMs: number
}

/** Tells a running generation to stop; its stream is kept as long as a cancelled one. Throws `session_not_found`. */
export async function removeSession(
  { redis, scripts, replayKeepMs }: RemovalOptions,
  ref: string,
  id: string,
): Promise<void> {
  for (;;) {
    const { last, active, ids } = await lookAt(redis, ref, id)
    const reply = await scripts.run(
      'remove',
      [
        keys.sessions(ref),
        ...sessionKeys(ref, id),
        keys.storage(ref),
        ...(active ? streamKeys(ref, active) : []),
      ],
      [id, last, active, String(Math.ceil(replayKeepMs / 1000))],
    )
    if (reply.word === 'session_not_found') throw new GatewayError('session_not_found')
    if (reply.word === 'again') continue
    const ended = ids.filter((message) => message !== active)
    return forget(redis, ref, ended)
  }
}

async function lookAt(redis: Redis, ref: string, id: string) {
  const [[last, active], ids] = await asked(
    Promise.all([
      redis.hmget(keys.session(ref, id), 'last', 'active'),
      redis.zrange(keys.messageIds(ref, id), '0', '-1'),
    ]),
  )
  return { last: last ?? '', active: active ?? '', ids }
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
