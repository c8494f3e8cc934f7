// The Lua scripts that keep sessions and their messages, as
// redis/scripts.ts loads them, and the keys that most scripts take.

import { keys } from '../redis/redis.ts'
import type { ScriptLibrary, Scripts } from '../redis/scripts.ts'

/** What an account has stored: files count in the same row. */
const storage = '../../accounts/lua/storage'

export const sessionScripts = {
  folder: new URL('lua/', import.meta.url),
  scripts: {
    create: [storage, 'keep'],
    patch: [storage, 'keep'],
    remove: [storage],
    recent: [],
    page: [],
    begin: [storage, 'keep'],
    append: [storage, 'forgotten'],
    finish: [storage, 'keep', 'forgotten', 'ending'],
    withdraw: [storage],
    lost: [storage, 'keep', 'ending'],
    amend: [storage],
    cancel: [],
  },
} satisfies ScriptLibrary<string>

export type SessionScript = keyof typeof sessionScripts.scripts
export type SessionScripts = Scripts<SessionScript>

export function sessionKeys(ref: string, session: string): readonly string[] {
  return [keys.session(ref, session), keys.messageIds(ref, session), keys.messages(ref, session)]
}

export function streamKeys(ref: string, message: string): readonly string[] {
  return [keys.stream(ref, message), keys.frames(ref, message)]
}
