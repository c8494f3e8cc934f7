// The Lua scripts that keep files, as redis/scripts.ts loads them. Each script touches the keys of one account only.

import type { ScriptLibrary, Scripts, WordsOf } from '../redis/scripts.ts'

/** What an account has stored: sessions count in the same row. */
const storage = '../../accounts/lua/storage'

export const fileScripts = {
  folder: new URL('lua/', import.meta.url),
  scripts: {
    begin: {
      after: [storage, 'announced', 'reservation'],
      words: ['ok', 'session_not_found', 'storage_quota_exceeded', 'lost', 'announce'],
    },
    reserve: { after: [storage, 'reservation'], words: ['ok', 'storage_quota_exceeded', 'lost'] },
    commit: {
      after: [storage, 'announced'],
      words: ['ok', 'session_not_found', 'storage_quota_exceeded', 'lost', 'announce'],
    },
    forget: { words: ['ok'] },
    drop: { after: ['announced', 'away'], words: ['ok', 'gone', 'announce'] },
    expire: { after: [storage, 'away'], words: ['ok', 'gone'] },
    expect: { after: ['announced'], words: ['ok', 'announce'] },
    claim: { words: ['ok'] },
    outlive: { words: ['ok', 'gone'] },
    close: { words: ['ok', 'stays', 'announce'] },
  },
} as const satisfies ScriptLibrary<Readonly<Record<string, string>>>

export type FileScripts = Scripts<WordsOf<typeof fileScripts>>
