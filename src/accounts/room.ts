// Room in the storage of an account. Redis tells nobody when it removes an expired session, so whoever finds that a
// session has expired gives back what it counted; and before a request is refused for lack of room, expired sessions
// are looked for.

import { asked } from '../redis/asked.ts'
import { isId } from '../ids.ts'
import { keys } from '../redis/keys.ts'
import { createScripts, numberAt } from '../redis/scripts.ts'
import type { ScriptLibrary, ScriptLink } from '../redis/scripts.ts'

export type Room = ReturnType<typeof createRoom>

/** How many sessions are picked at random from those that may expire: when many have expired, each look finds some. */
const lookedAt = 256

export const roomScripts = {
  folder: new URL('lua/', import.meta.url),
  scripts: { outlived: { words: ['ok'] } },
} as const satisfies ScriptLibrary<Readonly<Record<string, string>>>

export function createRoom(link: ScriptLink) {
  const scripts = createScripts({ link, library: roomScripts })
  /** Resolves with how many of these sessions had expired; the others stay. */
  const forgetExpired = async (ref: string, ids: readonly string[]) => {
    const sessions = ids.map((id) => keys.session(ref, id))
    const names = [keys.storage(ref), keys.sessions(ref), ...sessions]
    return numberAt(await scripts.run('outlived', names, ids), 2)
  }
  const look = async (ref: string) => {
    const fields = await asked(link.client.hrandfield(keys.storage(ref), lookedAt))
    const ids = [fields].flat().map(String)
    const sessions = ids.filter((id) => isId('sess', id))
    return sessions.length > 0 ? await forgetExpired(ref, sessions) : 0
  }
  return {
    forgetExpired,
    /** Runs `store` again when it was refused for lack of room, as long as expired sessions are found. */
    async within<T extends { readonly word: string }>(ref: string, store: () => Promise<T>) {
      let reply = await store()
      while (reply.word === 'storage_quota_exceeded' && (await look(ref)) > 0) reply = await store()
      return reply
    },
  }
}
