// The Lua scripts that keep sessions and their messages, as redis/scripts.ts loads them, and the keys that most scripts
// take.

import { GatewayError } from '../errors.ts'
import { isId } from '../ids.ts'
import { keys } from '../redis/keys.ts'
import { numberAt } from '../redis/scripts.ts'
import type { Reply, ScriptLibrary, Scripts, WordsOf } from '../redis/scripts.ts'

/** What stands before the scripts that share something. What an account has stored comes first: files count in the same row. */
const after = ['../../accounts/lua/storage', 'prelude'] as const

export const sessionScripts = {
  folder: new URL('lua/', import.meta.url),
  scripts: {
    create: { after, words: ['ok', 'older', 'claim_lost', 'storage_quota_exceeded'] },
    patch: { after, words: ['ok', 'session_not_found', 'storage_quota_exceeded'] },
    remove: { after, words: ['ok', 'session_not_found', 'again'] },
    recent: { after, words: ['ok', 'session_not_found', 'asleep'] },
    list: { words: ['ok', 'session_not_found', 'asleep'] },
    row: { words: ['ok', 'session_not_found', 'asleep'] },
    drowsy: { words: ['ok'] },
    sleep: { words: ['ok', 'changed', 'late'] },
    wake: { after, words: ['ok', 'again', 'awake', 'session_not_found'] },
    named: { words: ['ok', 'unnamed', 'later'] },
    begin: {
      after,
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
        'asleep',
      ],
    },
    append: { after, words: ['ok'] },
    finish: { after, words: ['ok', 'lost', 'behind', 'forgotten'] },
    withdraw: { after, words: ['ok', 'lost'] },
    lost: { after, words: ['ok', 'alive', 'ended', 'again'] },
    amend: { after, words: ['ok', 'changed'] },
    cancel: { words: ['ok', 'ended'] },
  },
} as const satisfies ScriptLibrary<Readonly<Record<string, string>>>

export type SessionWords = WordsOf<typeof sessionScripts>
export type SessionScripts = Scripts<SessionWords>

/** Where a session lies. */
export interface SessionPlace {
  readonly ref: string
  readonly session: string
}

/** Refuses a malformed id without asking Redis. */
export function checkSession(session: string): void {
  if (!isId('sess', session)) throw new GatewayError('session_not_found')
}

export function sessionKeys(ref: string, session: string): readonly string[] {
  return [keys.session(ref, session), keys.messageIds(ref, session), keys.messages(ref, session)]
}

export function streamKeys(ref: string, message: string): readonly string[] {
  return [keys.stream(ref, message), keys.frames(ref, message)]
}

/** What list.lua has found. There are fewer rows than ids if the next row has no room; a row that is missing is ''. */
export function listedIn(reply: Reply): { readonly ids: string[]; readonly rows: string[] } {
  const texts = reply.values.slice(3).map(String)
  const count = numberAt(reply, 2)
  return { ids: texts.slice(0, count), rows: texts.slice(count) }
}
