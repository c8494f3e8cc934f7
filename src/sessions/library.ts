// The Lua scripts that keep sessions and their messages, as
// redis/scripts.ts loads them, and the keys that most scripts take.

import { keys } from '../redis/redis.ts'
import type { ScriptLibrary, Scripts, WordsOf } from '../redis/scripts.ts'

/** What an account has stored: files count in the same row. */
const storage = '../../accounts/lua/storage'

export const sessionScripts = {
  folder: new URL('lua/', import.meta.url),
  scripts: {
    create: {
      after: [storage, 'keep'],
      words: ['ok', 'older', 'claim_lost', 'storage_quota_exceeded'],
    },
    patch: {
      after: [storage, 'keep'],
      words: ['ok', 'session_not_found', 'storage_quota_exceeded'],
    },
    remove: { after: [storage], words: ['ok', 'session_not_found', 'again'] },
    recent: { after: ['mark'], words: ['ok', 'session_not_found'] },
    page: { words: ['ok'] },
    begin: {
      after: [storage, 'keep', 'mark'],
      words: [
        'ok',
        'session_not_found',
        'session_busy',
        'no_hold',
        'changed',
        'claim_lost',
        'older',
        'full',
        'storage_quota_exceeded',
      ],
    },
    append: { after: [storage, 'forgotten'], words: ['ok', 'lost', 'behind', 'forgotten'] },
    finish: {
      after: [storage, 'keep', 'forgotten', 'ending'],
      words: ['ok', 'lost', 'behind', 'forgotten'],
    },
    withdraw: { after: [storage], words: ['ok', 'lost'] },
    lost: { after: [storage, 'keep', 'ending'], words: ['ok', 'alive', 'ended', 'again'] },
    amend: { after: [storage], words: ['ok', 'changed'] },
    cancel: { words: ['ok', 'ended'] },
  },
} as const satisfies ScriptLibrary<Readonly<Record<string, string>>>

export type SessionWords = WordsOf<typeof sessionScripts>
export type SessionScripts = Scripts<SessionWords>

export function sessionKeys(ref: string, session: string): readonly string[] {
  return [keys.session(ref, session), keys.messageIds(ref, session), keys.messages(ref, session)]
}

export function streamKeys(ref: string, message: string): readonly string[] {
  return [keys.stream(ref, message), keys.frames(ref, message)]
}
